import { realpathSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { isAbsolute, join, normalize, relative, sep } from 'node:path';

/**
 * Finds the first file in the folder of job.yaml that a command names, such as `train.ts` in `node train.ts`; undefined if it names no file.
 * A folder with such a file becomes the default source.
 *
 * The name of the program counts only if it contains a slash (`./train`), because the shell looks up other names in PATH. An argument counts
 * only if it contains a dot or a slash.
 *
 * @param isFile tests a path relative to the folder of job.yaml.
 */
export function fileBeside(command: string, isFile: (path: string) => boolean): string | undefined {
  let isProgram: boolean = true;
  for (const token of command.match(/[;&|()]+|(?:"[^"]*"|'[^']*'|[^\s;&|()"'])+/g) ?? []) {
    if (/^[;&|()]/.test(token)) {
      isProgram = true;
      continue;
    }
    const word = token.replace(/["']/g, '');
    const isAssignment: boolean = isProgram && /^\w+=/.test(word);
    const path = isProgram && !word.includes('/') ? undefined : pathIn(word);
    if (path !== undefined && isFile(path)) {
      return path;
    }
    isProgram = isAssignment;
  }
  return undefined;
}

/** Returns the path in a word such as `train.ts` or `--config=conf.yaml`; undefined if the word contains no path below the folder. */
function pathIn(word: string): string | undefined {
  const value = word.replace(/^[<>]+/, '').replace(/^-[\w-]*=/, '');
  if (!/[./]/.test(value) || /^[-~]/.test(value) || /[$*?\0]/.test(value) || isAbsolute(value)) {
    return undefined;
  }
  const path = normalize(value);
  return path === '.' || path === '..' || path.startsWith(`..${sep}`) ? undefined : path;
}

/** Returns a function that tests whether a path, relative to `folder`, is a file. */
export function isFileIn(folder: string): (path: string) => boolean {
  return (path) => statSync(join(folder, path), { throwIfNoEntry: false })?.isFile() ?? false;
}

/**
 * True for a folder that cannot be the default source: the user's home and its ancestors (symbolic links are resolved), and shared folders
 * such as /tmp.
 */
export function isTooBroad(folder: string, home: string = homedir()): boolean {
  return contains(folder, home) || contains(withoutLinks(folder), withoutLinks(home)) || isShared(folder);
}

/** The mode bits of a shared folder: all users may create files, but only the owner of a file may remove it (o+w and the sticky bit). */
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
