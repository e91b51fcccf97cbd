import { TonyError } from '../../conf/errors.ts';
import type { Site } from '../../conf/site.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import { placeUri } from '../place-uri.ts';

/*
 * Where histories lie:
 *
 *   <staging root>/history/<application id>/   of a user alone: 0700, files 0600
 *   <history.dir>/<user>/<application id>/     where the site names a folder for all: 0750, files 0640. On HDFS what is made in a folder belongs to
 *                                              the folder's group, which is that of the history server. <history.dir> itself is 1777, so that users can
 *                                              begin: a folder counts as alice's only if it is owned by alice.
 */

const SHARED_FOLDER = 0o750;

export interface HistoryPlace {
  /** URI of the folder that holds a folder for each job of the user. */
  readonly folder: string;
  /** Others than the user may read it. */
  readonly shared: boolean;
  /** Address of the history server. */
  readonly url: string | null;
}

/** Where the jobs of a user leave their histories. */
export function historyPlace(site: Site, user: { readonly user: string; readonly home: string; readonly root: string }): HistoryPlace {
  const shared = sharedFolder(site, user.home);
  if (shared === null) return { folder: joinUri(user.root, 'history'), shared: false, url: null };
  return { folder: joinUri(shared, user.user), shared: true, url: site.history.url };
}

/** Where a job's history may lie: an admin may have moved those of new jobs. The likeliest first. */
export function historyFolders(
  site: Site,
  reader: { readonly home: string; readonly root: string; readonly user: string },
  job: { readonly user: string; readonly applicationId: string },
): string[] {
  const shared = sharedFolder(site, reader.home);
  return [
    ...(shared === null ? [] : [joinUri(shared, job.user, job.applicationId)]),
    // What others have in their own places is theirs.
    ...(job.user === reader.user ? [joinUri(reader.root, 'history', job.applicationId)] : []),
  ];
}

/** URI of the folder with the histories of all users; null where there is none. */
export function sharedFolder(site: Site, home: string): string | null {
  return placeUri(site.history.dir, home);
}

/** Where the history server shows a job. */
export function historyUrl(server: string, user: string, applicationId: string): string {
  return `${server}/jobs/${encodeURIComponent(user)}/${applicationId}/`;
}

/** Makes the folder of a job's history where others may read it, and sees to it that it is in the user's own. */
export async function openHistory(storage: Storage, { folder, shared }: HistoryPlace, user: string, applicationId: string): Promise<void> {
  // In the staging root, which is the user's alone, the ApplicationMaster makes it when it has something to write.
  if (!shared) return;
  try {
    if ((await storage.stat(folder)) === null) await storage.makeFolder(folder, SHARED_FOLDER);
    const owner = (await storage.stat(folder))?.owner;
    if (owner !== user) {
      throw new TonyError('HISTORY_UNWRITABLE', `The folder ${folder} for your histories belongs to ${owner ?? 'nobody'}.`);
    }
    await storage.makeFolder(joinUri(folder, applicationId), SHARED_FOLDER);
  } catch (error) {
    if (!(error instanceof TonyError && (error.code === 'ACCESS_DENIED' || error.code === 'STORAGE_REFUSED'))) throw error;
    throw new TonyError('HISTORY_UNWRITABLE', `The history of the job cannot be kept in ${folder}: ${error.message}`, { cause: error });
  }
}
