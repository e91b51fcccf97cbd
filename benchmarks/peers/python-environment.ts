import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';

const execute = promisify(execFile);

/** Path of a Python interpreter with these packages, from a virtual environment with this name that is kept between runs. */
export async function pythonWith(name: string, packages: readonly string[], progress: (line: string) => void): Promise<string> {
  const folder = path.resolve('.cache', 'benchmarks', name);
  if (!existsSync(folder)) {
    progress(`installing ${packages.join(', ')} for Python`);
    // Built under a temporary name until it is complete. `python -m` works after the move.
    const building = `${folder}.${process.pid}`;
    await mkdir(path.dirname(folder), { recursive: true });
    await execute('python3', ['-m', 'venv', building]);
    await execute(path.join(building, 'bin', 'python'), ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...packages]);
    await rename(building, folder).catch((error) => {
      if (!existsSync(folder)) {
        throw error;
      }
    });
    await rm(building, { recursive: true, force: true });
  }
  return path.join(folder, 'bin', 'python');
}
