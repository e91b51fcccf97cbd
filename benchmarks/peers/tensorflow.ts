import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';

const execute = promisify(execFile);
/** The TensorFlow that the runtime's addon is built against, so that its kernels are the same. */
const VERSION = '2.18.1';
const KERAS = '2.18.0';

/** Path of a Python that has TensorFlow for CPUs, from a virtual environment that is kept between runs. */
export async function tensorflowPython(progress: (line: string) => void): Promise<string> {
  const folder = path.resolve('.cache', 'benchmarks', `tensorflow-${VERSION}`);
  if (!existsSync(folder)) {
    progress(`installing tensorflow-cpu ${VERSION} for Python`);
    // Under a name of its own until it is whole. `python -m` does not mind the move.
    const building = `${folder}.${process.pid}`;
    await mkdir(path.dirname(folder), { recursive: true });
    await execute('python3', ['-m', 'venv', building]);
    const packages = [`tensorflow-cpu==${VERSION}`, `tf_keras==${KERAS}`];
    await execute(path.join(building, 'bin', 'python'), ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...packages]);
    await rename(building, folder).catch((error) => {
      if (!existsSync(folder)) throw error;
    });
    await rm(building, { recursive: true, force: true });
  }
  return path.join(folder, 'bin', 'python');
}
