import { constants } from 'node:fs';
import { chmod, copyFile, mkdir, mkdtemp, rename, rm, stat, symlink } from 'node:fs/promises';
import { homedir } from 'node:os';
import path from 'node:path';
import { messageOf, TonyError } from '../conf/errors.ts';
import type { Resource } from '../conf/job.ts';
import { fileUri } from '../storage/uri.ts';
import type { HashedFolder } from './source-archive.ts';
import type { StagingEvent } from './staging.ts';

/** Where local jobs live, when nothing else is said. */
export function localRoot(environment: NodeJS.ProcessEnv = process.env): string {
  return environment.TONY_LOCAL_DIR ?? path.join(homedir(), '.tony-ts', 'local');
}

/** Whether `placeFolder` would find it in its place. */
export async function isFolderPlaced(root: string, name: string, folder: HashedFolder): Promise<boolean> {
  return (await stat(placeOf(root, name, folder)).catch(() => null)) !== null;
}

function placeOf(root: string, name: string, { hash }: HashedFolder): string {
  return path.join(root, 'cache', hash, name);
}

/**
 * A folder in the local cache, as a NodeManager would have unpacked it: under the hash of its content, its files read-only,
 * shared by all jobs that have the same. Whole or not at all.
 */
export async function placeFolder(
  root: string,
  name: string,
  folder: HashedFolder,
  onEvent: (event: StagingEvent) => void,
): Promise<Resource> {
  const target = placeOf(root, name, folder);
  const home = path.dirname(target);
  try {
    if (!(await isFolderPlaced(root, name, folder))) {
      onEvent({ type: 'upload', name, sent: 0, total: folder.bytes });
      await mkdir(home, { recursive: true, mode: 0o700 });
      await copyInto(home, target, folder);
      onEvent({ type: 'upload', name, sent: folder.bytes, total: folder.bytes });
    } else {
      onEvent({ type: 'unchanged', name, bytes: folder.bytes });
    }
  } catch (error) {
    if (error instanceof TonyError) throw error;
    throw new TonyError('STAGING_UNWRITABLE', `The folder ${root} of local jobs cannot be written: ${messageOf(error)}.`, { cause: error });
  }
  return { name, uri: fileUri(target), type: 'archive', visibility: 'private', size: folder.bytes, timestamp: 0 };
}

async function copyInto(home: string, target: string, folder: HashedFolder): Promise<void> {
  const temporary = await mkdtemp(path.join(home, '.copy-'));
  try {
    for (const entry of folder.entries) {
      const from = path.join(folder.root, entry.path);
      const to = path.join(temporary, entry.path);
      if (entry.type === 'folder') await mkdir(to);
      else if (entry.type === 'link') await symlink(entry.target, to);
      else {
        await copyFile(from, to, constants.COPYFILE_FICLONE);
        await chmod(to, entry.executable ? 0o555 : 0o444);
      }
    }
    await rename(temporary, target);
  } catch (error) {
    await rm(temporary, { recursive: true, force: true });
    // Another submit may have been faster.
    if ((await stat(target).catch(() => null)) === null) throw error;
  }
}
