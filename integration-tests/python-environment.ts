import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, rename } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { ROOT } from './command.ts';

const execute = promisify(execFile);

/** pip does not compile the packages: the tests import a small part of them, and Python then compiles what it imports. */
const PIP_OPTIONS = ['--quiet', '--disable-pip-version-check', '--no-compile'];

/** Arguments: the folder, and the packages. `python -m` still works after the folder is renamed. */
const INSTALL = `
  [ ! -e "$1" ] || exit 0
  rm -rf "$1.new"
  python3 -m venv --without-pip "$1.new"
  python3 -m pip --python "$1.new/bin/python" install ${PIP_OPTIONS.join(' ')} "\${@:2}"
  mv "$1.new" "$1"`;

/**
 * Returns the path of a Python interpreter with these packages. The interpreter belongs to a virtual environment in `folder`, which is kept
 * between runs. If another process is already installing it, waits for that process.
 */
export async function pythonWith(
  folder: string,
  packages: readonly string[],
  progress: (line: string) => void = () => {},
): Promise<string> {
  if (!existsSync(folder)) {
    progress(`installing ${packages.join(', ')} for Python`);
    await mkdir(path.dirname(folder), { recursive: true });
    await execute('flock', [`${folder}.lock`, 'bash', '-ec', INSTALL, 'bash', folder, ...packages]);
  }
  return path.join(folder, 'bin', 'python');
}

/** Returns an interpreter with mypy, and with fsspec for the file system of the package `tony`. */
export function pythonWithTools(): Promise<string> {
  return pythonWith(path.join(ROOT, '.cache', 'python-tools-1'), ['mypy==2.4.1', 'fsspec==2026.9.0']);
}

/** Installs packages for an interpreter into `folder`, which is kept between runs, without their dependencies. Returns the folder. */
export async function packagesFor(python: string, folder: string, packages: readonly string[]): Promise<string> {
  if (!existsSync(folder)) {
    const building = `${folder}.${process.pid}`;
    const words = ['install', ...PIP_OPTIONS, '--no-deps', '--target', building, ...packages];
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
