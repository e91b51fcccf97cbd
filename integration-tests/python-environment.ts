import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';

const execute = promisify(execFile);

/**
 * Returns the path of a Python interpreter with these packages. The interpreter belongs to a virtual environment in `folder`, which is kept
 * between runs.
 */
export async function pythonWith(
  folder: string,
  packages: readonly string[],
  progress: (line: string) => void = () => {},
): Promise<string> {
  if (!existsSync(folder)) {
    progress(`installing ${packages.join(', ')} for Python`);
    // Two runs may build at the same time, so each builds under a temporary name. `python -m` still works after the rename.
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

/** Installs packages for an interpreter into `folder`, which is kept between runs, without their dependencies. Returns the folder. */
export async function packagesFor(python: string, folder: string, packages: readonly string[]): Promise<string> {
  if (!existsSync(folder)) {
    const building = `${folder}.${process.pid}`;
    const words = ['install', '--quiet', '--disable-pip-version-check', '--no-deps', '--target', building, ...packages];
    await execute('python3', ['-m', 'pip', '--python', python, ...words]);
    await rename(building, folder);
  }
  return folder;
}

/** Returns the path of an installed interpreter that can import the module; null if there is none. */
export async function pythonThatImports(module: string): Promise<string | null> {
  for (const python of ['/usr/bin/python3', 'python3']) {
    const { stdout } = await execute(python, ['-c', `import sys, ${module}; print(sys.executable)`]).catch(() => ({ stdout: '' }));
    if (stdout !== '') {
      return stdout.trim();
    }
  }
  return null;
}
