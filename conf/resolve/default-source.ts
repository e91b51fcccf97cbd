import { realpathSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { isAbsolute, join, relative, sep } from 'node:path';
import { simpleCommands } from '../../platform/text/shell-words.ts';

/**
 * Returns the first file to which a command refers, for example `train.ts` in `node train.ts`, or `trainer/main.py` in
 * `python3 -m trainer.main`. Returns undefined if there is no such file. If there is one, the folder of job.yaml is the default source.
 *
 * Ignores program names without a slash, because the shell looks them up in PATH. Ignores arguments that contain neither a dot nor a slash,
 * except module names. Also looks for the file in folders that the command enters with `cd` or adds to PYTHONPATH.
 * @param isFile returns whether a path, relative to the folder of job.yaml, is a file
 */
export function fileBeside(command: string, isFile: (path: string) => boolean): string | undefined {
  const folders = ['.'];
  for (const { assignments, words } of simpleCommands(command)) {
    const all = [...assignments, ...words];
    for (const [at, word] of all.entries()) {
      const previous = all[at - 1];
      const entered = previous === 'cd' ? word : /^PYTHONPATH=(.*)/.exec(word)?.[1];
      folders.push(...(entered?.split(':').filter((folder) => folder !== '' && !isAbsolute(folder)) ?? []));
      const isName = at <= assignments.length && !word.includes('/');
      const paths = previous === '-m' ? moduleFiles(word) : isName ? [] : [word];
      const found = folders
        .flatMap((folder) => paths.map((path) => pathIn(path, folder)))
        .find((path) => path !== undefined && isFile(path));
      if (found !== undefined) {
        return found;
      }
    }
  }
  return undefined;
}

/** Returns the files that `python3 -m` may run, for example `trainer/main.py` and `trainer/main/__main__.py` for `trainer.main`. */
function moduleFiles(module: string): string[] {
  const path = module.replaceAll('.', '/');
  return /^\w+(\.\w+)*$/.test(module) ? [`${path}.py`, `${path}/__main__.py`] : [];
}

/**
 * Returns the relative path in a word, or undefined if the word contains none. For example, `--config=conf.yaml` contains the path
 * `conf.yaml`.
 * @param folder the folder to which the path is relative
 */
function pathIn(word: string, folder: string): string | undefined {
  const value = word.replace(/^[<>]+/, '').replace(/^-[\w-]*=/, '');
  if (!/[./]/.test(value) || /^[-~]/.test(value) || /[$*?\0]/.test(value) || isAbsolute(value)) {
    return undefined;
  }
  const path = join(folder, value);
  return path === '.' || path === '..' || path.startsWith(`..${sep}`) ? undefined : path;
}

export function isFileIn(folder: string): (path: string) => boolean {
  return (path) => statSync(join(folder, path), { throwIfNoEntry: false })?.isFile() ?? false;
}

/**
 * Returns true for folders that tony-ts does not upload by default. These are the user's home folder, its ancestors, and shared folders
 * such as /tmp.
 */
export function isTooBroad(folder: string, home: string = homedir()): boolean {
  return contains(folder, home) || contains(withoutLinks(folder), withoutLinks(home)) || isShared(folder);
}

/** Mode bits of a shared folder such as /tmp. Such a folder is world-writable and has the sticky bit (o+wt). */
const SHARED_MODE = 0o1002;

function isShared(folder: string): boolean {
  return ((statSync(folder, { throwIfNoEntry: false })?.mode ?? 0) & SHARED_MODE) === SHARED_MODE;
}

function contains(folder: string, home: string): boolean {
  const way = relative(folder, home);
  return way === '' || (!way.startsWith('..') && !isAbsolute(way));
}

function withoutLinks(folder: string): string {
  try {
    return realpathSync(folder);
  } catch {
    return folder;
  }
}
