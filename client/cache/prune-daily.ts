import { joinUri } from '../../storage/uri.ts';
import type { HistoryStore } from '../records/history-store.ts';
import { pruneCache } from './prune-cache.ts';

/** Minimum time (ms) between two prunes. Prunes are expensive, because each one reads all of the user's histories. */
const PAUSE_MS = 86_400_000;
/** Time limit (ms) for one prune. The next prune removes the remaining entries. */
const LONGEST_MS = 10_000;
const MARKER = 'cache-pruned';

/**
 * Removes cache entries that no job has used within the age limit in the site file. Does nothing without an age limit, or if the last prune
 * started less than a day ago. The modification time of a marker file in the staging root records when the last prune started.
 * @throws TonyError as `pruneCache` does
 */
export async function pruneDaily(store: HistoryStore, now: number): Promise<void> {
  const { storage, root, cacheMaxAgeMs: olderThanMs } = store;
  if (olderThanMs === null) {
    return;
  }
  const marker = joinUri(root, MARKER);
  if (now - ((await storage.stat(marker))?.modifiedAt ?? 0) < PAUSE_MS) {
    return;
  }
  // Write the marker file first, so that concurrent submissions do not also start a prune.
  await storage.write(marker, Buffer.alloc(0), { permission: 0o600 });
  const end = performance.now() + LONGEST_MS;
  for await (const _ of pruneCache(store, { olderThanMs, dryRun: false, now })) {
    if (performance.now() > end) {
      break;
    }
  }
}
