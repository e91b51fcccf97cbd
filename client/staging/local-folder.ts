import { constants } from 'node:fs';
import { chmod, copyFile, mkdir, mkdtemp, readdir, rename, rm, stat, symlink } from 'node:fs/promises';
import { homedir } from 'node:os';
import path from 'node:path';
import type { LocalResource } from '../../hadoop/yarn/local-resource.ts';
import { fileErrorOf, TonyError } from '../../platform/errors.ts';
import { makeFolders } from '../../platform/files/make-folders.ts';
import { fileUri } from '../../storage/uri.ts';
import { refuseForeignFolder } from '../files/own-folder.ts';
import type { HashedFolder } from '../job/source-archive.ts';
import type { StagingEvent } from './staging.ts';

/** Returns the default folder for local jobs. */
export function localRoot(environment: NodeJS.ProcessEnv = process.env): string {
  return path.resolve(environment.TONY_LOCAL_DIR || path.join(homedir(), '.tony-ts', 'local'));
}

/**
 * Checks that the folder for local jobs is a folder, if it exists. Otherwise, its listings would be empty.
 * @throws TonyError STAGING_UNWRITABLE
 */
export async function checkLocalRoot(root: string): Promise<void> {
  await readdir(root).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') {
      throw new TonyError('STAGING_UNWRITABLE', `Cannot read ${root}, the folder for local jobs: ${fileErrorOf(error)}.`, {
        hint: 'Set TONY_LOCAL_DIR or HOME to a folder that you can read.',
        cause: error,
      });
    }
  });
}

/** Converts a file system error in the folder for local jobs to a TonyError. Returns other errors unchanged. */
export function localFailure(root: string, error: unknown): unknown {
  if (error instanceof TonyError || typeof (error as NodeJS.ErrnoException).syscall !== 'string') {
    return error;
  }
  return new TonyError('STAGING_UNWRITABLE', `Cannot write to ${root}, the folder for local jobs: ${fileErrorOf(error)}.`, {
    hint: 'Free up space in this folder or request write access to it, or set TONY_LOCAL_DIR to another folder.',
    cause: error,
  });
}

/** Returns true if the cache contains the folder. */
export async function isFolderPlaced(root: string, name: string, folder: HashedFolder): Promise<boolean> {
  return (await stat(placeOf(root, name, folder)).catch(() => null)) !== null;
}

function placeOf(root: string, name: string, { hash }: HashedFolder): string {
  return path.join(root, 'cache', hash, name);
}

/**
 * Copies a folder into the local cache, and makes its files read-only. The path in the cache contains a hash of the content, so that jobs
 * with the same content share one copy. Creates the copy atomically.
 * @throws TonyError FOLDER_DENIED, STAGING_UNWRITABLE
 */
export async function placeFolder(
  root: string,
  name: string,
  folder: HashedFolder,
  onEvent: (event: StagingEvent) => void,
): Promise<LocalResource> {
  const target = placeOf(root, name, folder);
  const home = path.dirname(target);
  await refuseForeignFolder(root, 'TONY_LOCAL_DIR');
  try {
    if (!(await isFolderPlaced(root, name, folder))) {
      onEvent({ type: 'upload', name, sent: 0, total: folder.bytes });
      await makeFolders(home, 0o700);
      await copyInto(home, target, folder);
      onEvent({ type: 'upload', name, sent: folder.bytes, total: folder.bytes });
    } else {
      onEvent({ type: 'unchanged', name, bytes: folder.bytes });
    }
  } catch (error) {
    throw localFailure(root, error);
  }
  return { name, uri: fileUri(target), type: 'archive', visibility: 'private', size: folder.bytes, timestamp: 0 };
}

async function copyInto(home: string, target: string, folder: HashedFolder): Promise<void> {
  const temporary = await mkdtemp(path.join(home, '.copy-'));
  try {
    for (const entry of folder.entries) {
      const from = path.join(folder.root, entry.path);
      const to = path.join(temporary, entry.path);
      if (entry.type === 'folder') {
        await mkdir(to);
      } else if (entry.type === 'link') {
        await symlink(entry.target, to);
      } else {
        await copyFile(from, to, constants.COPYFILE_FICLONE);
        await chmod(to, entry.executable ? 0o555 : 0o444);
      }
    }
    await rename(temporary, target);
  } catch (error) {
    await rm(temporary, { recursive: true, force: true });
    // A concurrent submission may already have created the copy.
    if ((await stat(target).catch(() => null)) === null) {
      throw error;
    }
  }
}
