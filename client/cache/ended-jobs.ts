import { isApplicationId } from '../../hadoop/rpc/application-id.ts';
import { joinUri } from '../../storage/uri.ts';
import type { HistoryStore } from '../records/history-store.ts';
import type { JobPlace } from '../records/job-place.ts';

/** Number of folders about which one submission asks, and the number that a prune reads. */
export const MOST_ENDED = { submission: 12, prune: 1_000 };
/** The store requests so few applications individually. It would request all applications of the cluster for more. */
const AT_ONCE = 3;

/**
 * Removes the staging folders of the user's jobs that YARN reports as ended, oldest first. An ApplicationMaster removes the folder of its
 * job, but has no time to do so if another user or an admin kills the application. Keeps the folders of jobs that may be running, and of
 * jobs that YARN does not know.
 * @param most maximum number of folders to consider
 * @returns the job IDs of the removed folders
 * @throws TonyError HDFS_UNREACHABLE, ACCESS_DENIED
 */
export async function removeEndedJobs(store: HistoryStore, most: number): Promise<string[]> {
  const { storage, root, user } = store;
  const folders = (await storage.list(joinUri(root, 'jobs'), { most: MOST_ENDED.prune }))
    .filter(({ type, name }) => type === 'folder' && isApplicationId(name))
    .sort((one, other) => one.modifiedAt - other.modifiedAt)
    .slice(0, most);
  const places = folders.map(({ name, uri }): JobPlace => ({ jobId: name, user, folder: uri }));
  const size = most > MOST_ENDED.submission ? places.length : AT_ONCE;
  const removed: string[] = [];
  for (let at = 0; at < places.length; at += size) {
    const batch = places.slice(at, at + size);
    const answers = await store.answers(batch);
    for (const { jobId, folder } of batch) {
      const answer = answers.get(folder);
      if (typeof answer === 'object' && answer.result !== null && (await storage.remove(folder))) {
        removed.push(jobId);
      }
    }
  }
  return removed;
}
