import path from 'node:path';
import { keptFolder } from './cluster/kept-folder.mjs';
import { ROOT } from './command.ts';
import { execute } from './execute.ts';

/** pip does not compile the packages: the tests import a small part of them, and Python then compiles what it imports. */
const PIP_OPTIONS = ['--quiet', '--disable-pip-version-check', '--no-compile'];

/**
 * Returns the path of a Python interpreter with these packages. The interpreter belongs to a virtual environment in `folder`, which is kept
 * between runs. Use `python -m`: the scripts in `bin` do not work, because the folder is renamed after the installation.
 */
export async function pythonWith(
  folder: string,
  packages: readonly string[],
  progress: (line: string) => void = () => {},
): Promise<string> {
  await keptFolder(folder, async (partial) => {
    progress(`installing ${packages.join(', ')} for Python`);
    await execute('python3', ['-m', 'venv', '--without-pip', partial]);
    await execute('python3', ['-m', 'pip', '--python', path.join(partial, 'bin', 'python'), 'install', ...PIP_OPTIONS, ...packages]);
  });
  return path.join(folder, 'bin', 'python');
}

/** Returns an interpreter with mypy, and with fsspec for the file system of the package `tony`. */
export function pythonWithTools(): Promise<string> {
  return pythonWith(path.join(ROOT, '.cache', 'python-tools-1'), ['mypy==2.4.1', 'fsspec==2026.9.0']);
}

/** Installs packages for an interpreter into `folder`, which is kept between runs, without their dependencies. Returns the folder. */
export function packagesFor(python: string, folder: string, packages: readonly string[]): Promise<string> {
  return keptFolder(folder, async (partial) => {
    const words = ['install', ...PIP_OPTIONS, '--no-deps', '--target', partial, ...packages];
    await execute('python3', ['-m', 'pip', '--python', python, ...words]);
  });
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
