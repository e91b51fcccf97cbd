import { checkOptions, type OptionNames } from '../../platform/check-options.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import type { HistoryStore } from '../records/history-store.ts';
import { type CacheUse, CacheUses } from './cache-uses.ts';
import { asideName, type CachedFolder, cachedFolders, cacheOf, isUnfinished } from './cached-folders.ts';

/** Age (ms) above which an unfinished entry counts as interrupted. */
const UNFINISHED_MS = 86_400_000;

export interface CacheEntry extends Omit<CachedFolder, 'unfinishedSince'> {
  /** IDs of jobs that use the entry and may still be running. */
  readonly usedBy: readonly string[];
  /** Newest job that used the entry according to the histories, or null if there is none. */
  readonly lastUse: CacheUse | null;
}

export interface CacheListing {
  /** Entries, most recently used or written first. */
  readonly entries: readonly CacheEntry[];
  /** Reason why the uses of some entries may be unknown, or '' if all uses are known. */
  readonly message: string;
}

export interface CacheListOptions {
  /** Current time in ms since the epoch. */
  readonly now: number;
}

const LIST_OPTIONS: OptionNames<CacheListOptions> = { now: true };

export interface PruneCacheOptions {
  /**
   * Minimum age (ms) of the entries to remove. The age is the time since the entry was last written or since the last job that used it was
   * submitted, whichever is shorter.
   */
  readonly olderThanMs: number;
  readonly dryRun: boolean;
  /** Current time in ms since the epoch. */
  readonly now: number;
}

const PRUNE_OPTIONS: OptionNames<PruneCacheOptions> = { olderThanMs: true, dryRun: true, now: true };

export interface PrunedEntry {
  readonly entry: CacheEntry;
  readonly bytes: number;
  /** Error message if the removal failed. Empty after a successful removal and in a dry run. */
  readonly failure: string;
}

/**
 * Lists the entries in the user's cache and the jobs that use them.
 * @throws TonyError HDFS_UNREACHABLE, ACCESS_DENIED
 */
export async function listCache(store: HistoryStore, options: CacheListOptions): Promise<CacheListing> {
  checkOptions('listCache', options, LIST_OPTIONS);
  const [uses, folders] = await Promise.all([CacheUses.read(store, options.now), cachedFolders(store.storage, store.root)]);
  const entries = folders.map((folder) => entryOf(folder, uses)).sort((a, b) => lastTouched(b) - lastTouched(a));
  return { entries, message: uses.gaps[0] ?? '' };
}

/**
 * Removes old, unused entries from the user's cache, oldest first, and the remains of interrupted uploads. Keeps entries that are used by
 * jobs that may still be running. Ignores the damaged histories of finished jobs.
 * @throws TonyError JOB_UNREADABLE, which stops the prune, if there are too many histories or if the job.json of a job that may be running
 *   is unreadable; HDFS_UNREACHABLE, ACCESS_DENIED
 */
export async function* pruneCache(store: HistoryStore, options: PruneCacheOptions): AsyncGenerator<PrunedEntry> {
  checkOptions('pruneCache', options, PRUNE_OPTIONS);
  const { storage, root } = store;
  const uses = await CacheUses.read(store, options.now);
  refuseGaps(uses);
  const folders = (await cachedFolders(storage, root)).sort((a, b) => a.writtenAt - b.writtenAt);
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
  return usedBy.length === 0 && now - Math.max(folder.writtenAt, lastUse?.createdAt ?? 0) > olderThanMs;
}

/**
 * Removes a cache folder unless a new job uses it. A submission writes job.json and then checks that its cache entries exist. This function
 * renames the folder, and then looks for new job.json files. Therefore, either the submission notices that the folder is missing, or this
 * function notices the job and restores the folder. A rename keeps the modification times, which YARN checks.
 * @returns '' after the removal, an error message if the removal failed, or null if a new job uses the folder or a concurrent prune has
 *   removed it
 */
async function removeUnused(store: HistoryStore, folder: CachedFolder, uses: CacheUses, now: number): Promise<string | null> {
  const { storage, root } = store;
  const { uri, hash } = folder;
  try {
    // An earlier prune has already renamed this folder, so no job refers to it.
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
    if (error instanceof TonyError && (error.unreachable || error.code === 'JOB_UNREADABLE')) {
      throw error;
    }
    return messageOf(error);
  }
}

/**
 * Gives the folder its original name again. If a submission has already uploaded parts of the same content, moves only the missing entries.
 */
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
      hint: 'Run the prune command again after the job has ended. If the job never started, remove its folder. If there are too many histories, run `tony-ts history prune`.',
    },
  );
}

function entryOf(folder: CachedFolder, uses: CacheUses): CacheEntry {
  const { hash, uri, contents, bytes, writtenAt } = folder;
  // Jobs never use unfinished entries.
  const used = isUnfinished(folder) ? { usedBy: [], lastUse: null } : uses.of(hash);
  return { hash, uri, contents, bytes, writtenAt, ...used };
}

function lastTouched({ writtenAt, lastUse }: CacheEntry): number {
  return Math.max(writtenAt, lastUse?.createdAt ?? 0);
}
