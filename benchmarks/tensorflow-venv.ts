/** TensorFlow for Python, the peer of several measurements, from a virtual environment that is kept between runs. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';

const execute = promisify(execFile);
const VERSION = '2.18.1';

/** Path of a Python that has tensorflow-cpu. The first call takes a minute and 220 MB of downloads. */
export async function tensorflowPython(): Promise<string> {
  const folder = path.resolve('.cache', `tensorflow-cpu-${VERSION}`);
  if (!existsSync(folder)) {
    // Under a name of its own until it is whole: two runs may build at the same time. `python -m` does not mind the move.
    const building = `${folder}.${process.pid}`;
    await mkdir(path.dirname(folder), { recursive: true });
    await execute('python3', ['-m', 'venv', building]);
    const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', `tensorflow-cpu==${VERSION}`];
    await execute(path.join(building, 'bin', 'python'), pip);
    await rename(building, folder).catch((error) => {
      if (!existsSync(folder)) throw error;
    });
    await rm(building, { recursive: true, force: true });
  }
  return path.join(folder, 'bin', 'python');
}
