import { TonyError } from '../../platform/errors.ts';
import type { FileStatus } from './web-hdfs-answers.ts';

/*
 * HttpFS ignores `renameoptions`. Its RENAME has the semantics of `FileSystem.rename`: it never replaces a file, and moves the source into
 * an existing folder. A replacement therefore takes several steps:
 *
 *   1. remove .NAME.0000000000000000.writing     left by a writer that crashed
 *   2. NAME -> .NAME.0000000000000000.writing    readers that do not find NAME now read this file
 *   3. the new file -> NAME
 *   4. remove .NAME.0000000000000000.writing
 *
 * One of the two files always exists and is complete. After a crash before step 3, the old content is still available.
 */

const KEPT = /^\.(.+)\.0{16}\.writing$/;
/** Maximum number of attempts. An attempt fails only if another writer replaces the file at the same time. */
const ATTEMPTS = 5;

/**
 * Returns the temporary path to which the old file is moved while it is being replaced. Listings omit this path, like all temporary files.
 */
export function keptPath(path: string): string {
  const cut = path.lastIndexOf('/') + 1;
  return `${path.slice(0, cut)}.${path.slice(cut)}.${'0'.repeat(16)}.writing`;
}

/** Returns a listing in which each file that is being replaced has its original name. */
export function withKept(statuses: readonly FileStatus[]): FileStatus[] {
  const names = new Set(statuses.map(({ name }) => name));
  return statuses.map((status) => {
    const own = KEPT.exec(status.name)?.[1];
    return own === undefined || names.has(own) ? status : { ...status, name: own };
  });
}

/** The file system operations that `completeRename` needs. HttpFS supports all of them. */
export interface SimpleFileSystem {
  status(path: string): Promise<FileStatus | null>;
  /** Returns the result of `FileSystem.rename`. */
  rename(from: string, to: string): Promise<boolean>;
  remove(path: string): Promise<boolean>;
  isSame(one: FileStatus, other: FileStatus): boolean;
}

export interface SimpleRename {
  readonly from: string;
  readonly to: string;
  /** The source's status before the rename. */
  readonly before: FileStatus;
  readonly overwrite: boolean;
}

/**
 * Completes a rename after the server's first response.
 *
 * @param isDone true if the server reported success
 */
export async function completeRename(
  files: SimpleFileSystem,
  { from, to, before, overwrite }: SimpleRename,
  isDone: boolean,
): Promise<'renamed' | 'source-missing' | 'target-exists'> {
  for (let attempt = 1, done = isDone; ; attempt += 1) {
    if (done) {
      if (await isStray(files, { from, to, before, overwrite })) {
        return overwrite ? refuseFolder(to) : 'target-exists';
      }
      return 'renamed';
    }
    const [source, target] = await Promise.all([files.status(from), files.status(to)]);
    if (target !== null && files.isSame(before, target) && from !== to) {
      return 'renamed';
    }
    if (source === null) {
      return 'source-missing';
    }
    if (target !== null && !overwrite) {
      return 'target-exists';
    }
    if (target?.type === 'folder') {
      return refuseFolder(to);
    }
    if (attempt > ATTEMPTS) {
      throw new TonyError('STORAGE_DENIED', `${from} cannot be renamed to ${to}: HttpFS gives no reason.`);
    }
    done = target === null ? await files.rename(from, to) : await replace(files, from, to);
  }
}

async function replace(files: SimpleFileSystem, from: string, to: string): Promise<boolean> {
  const kept = keptPath(to);
  await files.remove(kept);
  if (!(await files.rename(to, kept))) {
    return false;
  }
  const isDone = await files.rename(from, to);
  // Even if the rename failed, the old file is obsolete, because another writer has already replaced it.
  await files.remove(kept);
  return isDone;
}

/** Moves the source back if the server moved it into an existing folder. Returns true in this case. */
async function isStray(files: SimpleFileSystem, { from, to, before }: SimpleRename): Promise<boolean> {
  const after = await files.status(to);
  if (after === null || files.isSame(before, after)) {
    return false;
  }
  const stray = `${to}/${from.slice(from.lastIndexOf('/') + 1)}`;
  const there = await files.status(stray);
  if (there === null || !files.isSame(before, there)) {
    return false;
  }
  await files.rename(stray, from);
  return true;
}

function refuseFolder(to: string): never {
  throw new TonyError('ALREADY_EXISTS', `${to} is a folder.`);
}
