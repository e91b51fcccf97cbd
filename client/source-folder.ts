import { lstat, readdir, readFile, readlink, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import type { Ignore } from 'ignore';
import { messageOf, TonyError } from '../conf/errors.ts';

/** One thing in a folder that is shipped. Paths are relative, with `/`. */
export type FolderEntry =
  | { readonly type: 'folder'; readonly path: string }
  | { readonly type: 'file'; readonly path: string; readonly size: number; readonly executable: boolean }
  /** `target` is relative to the link's own folder and stays inside. */
  | { readonly type: 'link'; readonly path: string; readonly target: string };

export interface FolderListing {
  /** Absolute, without links in it. */
  readonly root: string;
  /** Sorted by path, a folder before what is in it. */
  readonly entries: readonly FolderEntry[];
  /** Of all files together. */
  readonly bytes: number;
}

/** Never wanted in a container; a line such as `!.git/` in .tonyignore brings them back. */
const NEVER_WANTED = ['.git/', '.hg/', '.svn/', '.DS_Store'];
const IGNORE_FILE = '.tonyignore';

/**
 * What of a source folder is shipped: everything but version control's folders, what `exclude` names and what the folder's
 * .tonyignore names (both in gitignore's syntax). Links that lead out of the folder are refused: in a container they would lead nowhere.
 */
export async function listSource(folder: string, exclude: readonly string[]): Promise<FolderListing> {
  const root = await resolveFolder(folder, 'source folder');
  const { default: ignore } = await import('ignore');
  const rules = ignore()
    .add(NEVER_WANTED)
    .add(await ignoreFile(root))
    .add([...exclude]);
  return walk(root, rules);
}

/** Everything in a folder, as it is. */
export async function listFolder(folder: string, what: string): Promise<FolderListing> {
  return walk(await resolveFolder(folder, what), null);
}

/** Input data: a folder with everything in it, or a single file. Links to files are followed, since only contents are staged. */
export async function listData(place: string, name: string): Promise<FolderListing> {
  const found = await stat(place).catch(() => null);
  if (found?.isFile()) {
    const entry = { type: 'file', path: path.basename(place), size: found.size, executable: false } as const;
    return { root: await realpath(path.dirname(place)), entries: [entry], bytes: found.size };
  }
  return walk(await resolveFolder(place, `folder of data.${name}`), null, 'follow');
}

async function resolveFolder(folder: string, what: string): Promise<string> {
  let resolved: string;
  try {
    resolved = await realpath(folder);
  } catch (error) {
    throw new TonyError('SOURCE_MISSING', `The ${what} ${folder} does not exist.`, { cause: error });
  }
  if (!(await stat(resolved)).isDirectory()) throw new TonyError('SOURCE_MISSING', `The ${what} ${folder} is not a folder.`);
  return resolved;
}

async function ignoreFile(root: string): Promise<string> {
  try {
    return await readFile(path.join(root, IGNORE_FILE), 'utf8');
  } catch (error) {
    if (isMissing(error)) return '';
    throw unreadable(path.join(root, IGNORE_FILE), error);
  }
}

async function walk(root: string, rules: Ignore | null, links: 'keep' | 'follow' = 'keep'): Promise<FolderListing> {
  const entries: FolderEntry[] = [];
  const pending = [''];
  let bytes = 0;
  for (let folder = pending.pop(); folder !== undefined; folder = pending.pop()) {
    for (const child of await children(path.join(root, folder))) {
      const relative = folder === '' ? child.name : `${folder}/${child.name}`;
      const absolute = path.join(root, relative);
      if (rules?.ignores(child.isDirectory() ? `${relative}/` : relative)) continue;
      if (child.isDirectory()) {
        entries.push({ type: 'folder', path: relative });
        pending.push(relative);
      } else if (child.isSymbolicLink() && links === 'follow') {
        const { size } = await fileBehind(absolute);
        entries.push({ type: 'file', path: relative, size, executable: false });
        bytes += size;
      } else if (child.isSymbolicLink()) {
        entries.push({ type: 'link', path: relative, target: await insideTarget(root, absolute) });
      } else if (child.isFile()) {
        const { size, mode } = await lstat(absolute).catch((error: unknown) => {
          throw unreadable(absolute, error);
        });
        entries.push({ type: 'file', path: relative, size, executable: (mode & 0o111) !== 0 });
        bytes += size;
      } else {
        throw new TonyError('SOURCE_UNSAFE', `${absolute} is neither a file nor a folder nor a link.`, {
          hint: `Remove it, or name it in ${IGNORE_FILE}.`,
        });
      }
    }
  }
  entries.sort((a, b) => (a.path < b.path ? -1 : 1));
  return { root, entries, bytes };
}

async function children(folder: string) {
  try {
    return await readdir(folder, { withFileTypes: true });
  } catch (error) {
    throw unreadable(folder, error);
  }
}

async function fileBehind(link: string): Promise<{ size: number }> {
  const behind = await stat(link).catch((error: unknown) => {
    throw unreadable(link, error);
  });
  if (behind.isFile()) return behind;
  throw new TonyError('SOURCE_UNSAFE', `${link} is a link to a folder; of data, only links to files are followed.`, {
    hint: 'Name the folder it leads to as data of its own.',
  });
}

/** A link's target as it has to read inside the archive. Folders on the way to the link are no links: the walk follows none. */
async function insideTarget(root: string, link: string): Promise<string> {
  const target = await readlink(link);
  const aim = path.resolve(path.dirname(link), target);
  // Where the kernel would end up: a chain of links may leave the folder though each name looks harmless.
  const real = await realpath(link).catch(() => aim);
  if (!isInside(root, aim) || !isInside(root, real)) {
    throw new TonyError('SOURCE_UNSAFE', `${link} is a link to ${target}, outside of the folder ${root} that is shipped.`, {
      hint: `Put a copy in its place, or name it in ${IGNORE_FILE}.`,
    });
  }
  return path.isAbsolute(target) ? path.relative(path.dirname(link), aim) || '.' : target;
}

function isInside(root: string, candidate: string): boolean {
  const relative = path.relative(root, candidate);
  return relative !== '..' && !relative.startsWith(`..${path.sep}`) && !path.isAbsolute(relative);
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

function unreadable(place: string, cause: unknown): TonyError {
  return new TonyError('SOURCE_UNREADABLE', `${place} cannot be read: ${messageOf(cause)}.`, { cause });
}
