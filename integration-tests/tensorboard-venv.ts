/** A real TensorBoard, in a virtual environment that is kept between runs. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const execute = promisify(execFile);
const VERSION = '2.21.0';

/** Path of a Python interpreter that has TensorBoard installed. */
export async function tensorboardPython(): Promise<string> {
  const folder = fileURLToPath(new URL(`../.cache/tensorboard-${VERSION}`, import.meta.url));
  if (!existsSync(folder)) {
    // Built under a temporary name until it is complete, because two runs may build at the same time. `python -m` works after the move.
    const building = `${folder}.${process.pid}`;
    await mkdir(path.dirname(folder), { recursive: true });
    await execute('python3', ['-m', 'venv', building]);
    const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', `tensorboard==${VERSION}`];
    await execute(path.join(building, 'bin', 'python'), pip);
    await rename(building, folder).catch((error) => {
      if (!existsSync(folder)) {
        throw error;
      }
    });
    await rm(building, { recursive: true, force: true });
  }
  return path.join(folder, 'bin', 'python');
}
