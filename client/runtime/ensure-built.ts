import { rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { messageOf, TonyError } from '../../conf/errors.ts';
import type { Progress } from './build-runtime.ts';
import { asOnlyBuilder, openBuildFolder, publish } from './cache.ts';

/** Something that is built once on a machine, and lies in its cache from then on. */
export interface Built<T> {
  /** For people: `runtime`. */
  readonly what: string;
  /** The folder of all of its kind. */
  readonly shelf: string;
  /** Its name there; two builds of one key make the same. */
  readonly key: string;
  /** Null when there is none. @throws TonyError RUNTIME_BROKEN when there is half of one */
  readonly read: (folder: string) => Promise<T | null>;
  /** Fills an empty folder. */
  readonly build: (folder: string, progress: Progress) => Promise<unknown>;
}

/**
 * From the cache, or built now. Several processes may call it at the same time: one builds, the others wait for it. A build that was
 * interrupted leaves nothing that looks finished.
 * @throws TonyError RUNTIME_CACHE_UNWRITABLE, RUNTIME_BROKEN, and what `build` throws
 */
export async function ensureBuilt<T>({ what, shelf, key, read, build }: Built<T>, progress: Progress): Promise<T> {
  const final = path.join(shelf, key);
  const present = await read(final);
  if (present !== null) return present;
  const waiting = (pid: number) => progress(`process ${pid} is building this ${what}; waiting for it`);
  const buildNow = async (): Promise<T> => {
    const folder = await openBuildFolder(shelf);
    try {
      await build(folder, progress);
      await publish(folder, final);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
    const built = await read(final);
    if (built === null) throw new TonyError('RUNTIME_BROKEN', `${final} went away while it was built`);
    return built;
  };
  try {
    return await asOnlyBuilder(shelf, key, waiting, async () => (await read(final)) ?? (await buildNow()));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (!['EACCES', 'EPERM', 'EROFS', 'ENOSPC', 'EDQUOT', 'ENOTDIR'].includes(code ?? '')) throw error;
    throw new TonyError('RUNTIME_CACHE_UNWRITABLE', `the ${what} cannot be built in ${shelf}: ${messageOf(error)}`, { cause: error });
  }
}

/** Forgets it, so that the next call builds it anew. */
export async function removeBuilt({ shelf, key }: { readonly shelf: string; readonly key: string }): Promise<void> {
  const away = await openBuildFolder(shelf);
  try {
    await rename(path.join(shelf, key), path.join(away, key));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  } finally {
    await rm(away, { recursive: true, force: true });
  }
}
