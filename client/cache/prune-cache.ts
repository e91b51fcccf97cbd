import { checkOptions, type OptionNames } from '../../platform/check-options.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import type { HistoryStore } from '../records/history-store.ts';
import { type CacheUse, CacheUses } from './cache-uses.ts';
import { asideName, type CacheContent, type CachedFolder, cachedFolders, cacheOf, isUnfinished } from './cached-folders.ts';

/** The age (ms) above which an unfinished entry counts as interrupted. */
const UNFINISHED_MS = 86_400_000;

/** A staged item in the cache. */
export interface CacheEntry {
  /** Hexadecimal sha256 of its content. */
  readonly hash: string;
  readonly uri: string;
  /** The roles of the entry in the jobs that use it. */
  readonly contents: readonly CacheContent[];
  readonly bytes: number;
  /** ms since the epoch. */
  readonly lastWritten: number;
  /** IDs of the jobs that use the entry and may still be running. */
  readonly usedBy: readonly string[];
  /** The newest job that used the entry, according to the existing histories; null without such a job. */
  readonly lastUse: CacheUse | null;
}

export interface CacheListing {
  /** Sorted by last use or write, newest first. */
  readonly entries: readonly CacheEntry[];
  /** Why uses may be missing; empty if complete. */
  readonly message: string;
}

export interface CacheListOptions {
  /** ms since the epoch. */
  readonly now: number;
}

const LIST_OPTIONS: OptionNames<CacheListOptions> = { now: true };

export interface PruneCacheOptions {
  /** Remove an entry if it was last written, and its last job was submitted, longer ago than this (ms). */
  readonly olderThanMs: number;
  readonly dryRun: boolean;
  /** ms since the epoch. */
  readonly now: number;
}

const PRUNE_OPTIONS: OptionNames<PruneCacheOptions> = { olderThanMs: true, dryRun: true, now: true };

export interface PrunedEntry {
  readonly entry: CacheEntry;
  /** Size of the entry. */
  readonly bytes: number;
  /** Why the removal failed; empty after a successful removal or in a dry run. */
  readonly failure: string;
}

/**
 * Lists the user's cache and the jobs that use it.
 *
 * @throws TonyError HDFS_UNREACHABLE, ACCESS_DENIED
 */
export async function listCache(store: HistoryStore, options: CacheListOptions): Promise<CacheListing> {
  checkOptions('listCache', options, LIST_OPTIONS);
  const [uses, folders] = await Promise.all([CacheUses.read(store, options.now), cachedFolders(store.storage, store.root)]);
  const entries = folders.map((folder) => entryOf(folder, uses)).sort((a, b) => lastTouched(b) - lastTouched(a));
  return { entries, message: uses.gaps[0] ?? '' };
}

/**
 * Removes entries from the user's cache, oldest first. Keeps entries that were written or used recently, or that are used by a job that
 * may still be running. Also removes the remains of interrupted uploads. If the history of a finished job is damaged, only its readable
 * references are considered.
 *
 * @throws TonyError JOB_UNREADABLE if the job.json of a job that may be running is unreadable, or if there are too many histories; it then
 * removes nothing more. HDFS_UNREACHABLE, ACCESS_DENIED
 */
export async function* pruneCache(store: HistoryStore, options: PruneCacheOptions): AsyncGenerator<PrunedEntry> {
  checkOptions('pruneCache', options, PRUNE_OPTIONS);
  const { storage, root } = store;
  const uses = await CacheUses.read(store, options.now);
  refuseGaps(uses);
  const folders = (await cachedFolders(storage, root)).sort((a, b) => a.lastWritten - b.lastWritten);
  for (const folder of folders) {
    const entry = entryOf(folder, uses);
    if (!isDue(folder, entry, options)) {
      continue;
    }
    const failure = options.dryRun ? '' : await removeUnused(store, folder, uses, options.now);
    if (failure !== null) {
      yield { entry, bytes: entry.bytes, failure };
    }
  }
}

/** Whether an entry is old and unused. */
export function isDue(
  folder: CachedFolder,
  { usedBy, lastUse }: Pick<CacheEntry, 'usedBy' | 'lastUse'>,
  { olderThanMs, now }: Pick<PruneCacheOptions, 'olderThanMs' | 'now'>,
): boolean {
  if (now - folder.unfinishedSince <= UNFINISHED_MS) {
    return false;
  }
  if (isUnfinished(folder)) {
    return true;
  }
  return usedBy.length === 0 && now - Math.max(folder.lastWritten, lastUse?.submittedAt ?? 0) > olderThanMs;
}

/**
 * Removes a cache folder. Safe during submissions: a submission writes its job.json, and then checks that all referenced entries exist. This
 * function renames the folder, and then reads new job.json files. In every order of these four steps, either the submission detects the
 * missing folder, or this function finds the job and restores the folder's name. Renaming preserves the modification times, which YARN
 * verifies.
 *
 * @returns an empty string after the removal; an error message if it failed; null if a new job uses the folder or another prune has removed
 * it
 */
async function removeUnused(store: HistoryStore, folder: CachedFolder, uses: CacheUses, now: number): Promise<string | null> {
  const { storage, root } = store;
  const { uri, hash } = folder;
  try {
    // Jobs never refer to temporary names.
    if (uri !== joinUri(cacheOf(root), hash)) {
      return (await storage.remove(uri)) ? '' : null;
    }
    const aside = joinUri(cacheOf(root), asideName(hash, now));
    if (!(await storage.rename(uri, aside))) {
      return null;
    }
    let isUsed = true;
    try {
      await uses.readNew();
      refuseGaps(uses);
      isUsed = uses.of(hash).usedBy.length > 0;
      if (!isUsed) {
        await storage.remove(aside);
      }
    } catch (error) {
      isUsed = true;
      throw error;
    } finally {
      if (isUsed) {
        await putBack(storage, aside, uri);
      }
    }
    return isUsed ? null : '';
  } catch (error) {
    if (error instanceof TonyError && (error.exitCode === 3 || error.code === 'JOB_UNREADABLE')) {
      throw error;
    }
    return messageOf(error);
  }
}

/** Restores the folder's name. If a submission has already uploaded a part of the same content, moves only the missing entries. */
async function putBack(storage: Storage, aside: string, uri: string): Promise<void> {
  if (await storage.rename(aside, uri)) {
    return;
  }
  for (const entry of await storage.list(aside)) {
    await storage.rename(entry.uri, joinUri(uri, entry.name));
  }
  await storage.remove(aside);
}

function refuseGaps({ gaps: [first] }: CacheUses): void {
  if (first === undefined) {
    return;
  }
  throw new TonyError(
    'JOB_UNREADABLE',
    `${first} tony-ts therefore cannot determine which files are in use, and has stopped removing files.`,
    {
      hint: 'Run the prune again when the job has ended. If the job never started, remove its folder. If there are too many histories, run `tony-ts history prune`.',
    },
  );
}

function entryOf(folder: CachedFolder, uses: CacheUses): CacheEntry {
  const { hash, uri, contents, bytes, lastWritten } = folder;
  // Jobs use only finished entries.
  const used = isUnfinished(folder) ? { usedBy: [], lastUse: null } : uses.of(hash);
  return { hash, uri, contents, bytes, lastWritten, ...used };
}

function lastTouched({ lastWritten, lastUse }: CacheEntry): number {
  return Math.max(lastWritten, lastUse?.submittedAt ?? 0);
}
