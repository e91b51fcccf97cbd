import { homedir } from 'node:os';
import { resolve } from 'node:path';

/** Returns the absolute path of a local path in a file in `folder`. As in a shell, `~` and `~/` stand for the home folder. */
export function resolvePath(path: string, folder: string): string {
  return isInHome(path) ? resolve(homedir(), path.slice(2)) : resolve(folder, path);
}

/** Returns true if a path starts with the home folder. `~user` is an ordinary name. */
export function isInHome(path: string): boolean {
  return path === '~' || path.startsWith('~/');
}
