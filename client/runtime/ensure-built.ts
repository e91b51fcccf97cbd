import { rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { readIfExists } from '../../platform/files/read-if-exists.ts';
import { refuseForeignFolder } from '../files/own-folder.ts';
import { asOnlyBuilder, openBuildFolder, publish } from './cache.ts';
import type { ProgressWriter } from './progress.ts';

/** Artefact that is built once per machine and then cached. */
export interface Built<T> {
  /** Name of the artefact for messages, for example `runtime`. */
  readonly what: string;
  /** Cache folder that contains all artefacts of this kind. */
  readonly shelf: string;
  /** Name of the artefact's folder. Builds with the same key are equivalent. */
  readonly key: string;
  /**
   * Reads the artefact. Returns null if the folder contains none.
   * @throws TonyError RUNTIME_INVALID if the artefact is incomplete
   */
  readonly read: (folder: string) => Promise<T | null>;
  /** Builds the artefact in `folder`, which is empty. */
  readonly build: (folder: string, progress: ProgressWriter) => Promise<unknown>;
}

/**
 * Returns the artefact from the cache, or builds it. If several processes need the same artefact, one of them builds it and the others
 * wait. An interrupted build does not leave an artefact in the cache.
 * @throws TonyError FOLDER_DENIED, RUNTIME_CACHE_UNWRITABLE, RUNTIME_INVALID, and the errors of `build`
 */
export async function ensureBuilt<T>({ what, shelf, key, read, build }: Built<T>, progress: ProgressWriter): Promise<T> {
  const final = path.join(shelf, key);
  await refuseForeignShelf(shelf);
  const present = await read(final);
  if (present !== null) {
    return present;
  }
  const waiting = (pid: number) => progress(`waiting for process ${pid}, which is building the same ${what}`);
  const buildNow = async (): Promise<T> => {
    const folder = await openBuildFolder(shelf);
    try {
      await build(folder, progress);
      await publish(folder, final);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
    const built = await read(final);
    if (built === null) {
      throw new TonyError('RUNTIME_INVALID', `${final} disappeared right after the build`);
    }
    return built;
  };
  try {
    return await asOnlyBuilder(shelf, key, waiting, async () => (await read(final)) ?? (await buildNow()));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (!['EACCES', 'EPERM', 'EROFS', 'ENOSPC', 'EDQUOT', 'ENOTDIR'].includes(code ?? '')) {
      throw error;
    }
    throw new TonyError('RUNTIME_CACHE_UNWRITABLE', `cannot build the ${what} in ${shelf}: ${messageOf(error)}`, { cause: error });
  }
}

export interface BuiltFiles {
  readonly archive: string;
  readonly tree: string;
}

/**
 * Reads `<name>.json`, which describes the artefact in `folder`. Returns null if the file does not exist.
 * @param needed path of a file that the unpacked archive must contain
 * @throws TonyError RUNTIME_INVALID if the archive or the file is missing or damaged
 */
export async function readBuilt<T extends { readonly size: number }>(
  folder: string,
  name: string,
  needed: string,
  broken: { readonly subject: string; readonly hint?: string },
): Promise<(T & BuiltFiles) | null> {
  const text = await readIfExists(path.join(folder, `${name}.json`));
  if (text === null) {
    return null;
  }
  const built = { ...(JSON.parse(text) as T), archive: path.join(folder, `${name}.tar.gz`), tree: path.join(folder, 'tree') };
  const archive = await stat(built.archive).catch(() => null);
  if (archive?.size !== built.size || (await stat(path.join(built.tree, needed)).catch(() => null)) === null) {
    const { subject, ...hint } = broken;
    throw new TonyError('RUNTIME_INVALID', `${subject} in ${folder} is damaged: files were removed or changed after the build`, hint);
  }
  return built;
}

/**
 * Rejects a cache that other users can write to, because the nodes run programs from its archives.
 * @throws TonyError FOLDER_DENIED
 */
export async function refuseForeignShelf(shelf: string): Promise<void> {
  for (const folder of [path.dirname(shelf), shelf]) {
    await refuseForeignFolder(folder, 'TONY_CACHE_DIR');
  }
}

/** Removes the artefact from the cache, so that the next call rebuilds it. */
export async function removeBuilt({ shelf, key }: { readonly shelf: string; readonly key: string }): Promise<void> {
  const away = await openBuildFolder(shelf);
  try {
    await rename(path.join(shelf, key), path.join(away, key));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') {
      throw error;
    }
  } finally {
    await rm(away, { recursive: true, force: true });
  }
}
