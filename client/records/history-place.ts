import type { KeepingSite } from '../../conf/resolve/site.ts';
import { TonyError } from '../../platform/errors.ts';
import { shellWord } from '../../platform/text/shell-word.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import { placeUri } from '../files/place-uri.ts';

/*
 * Locations of histories:
 *
 *   <staging root>/history/<application id>/   default; readable only by the user: folders 0700, files 0600
 *   <history.dir>/<user>/<application id>/     if the site file sets history.dir; readable by its group: folders 0750, files 0640
 *
 * On HDFS, new files inherit the group of <history.dir>, which is the group of the history server. <history.dir> has mode 1777, so users
 * can create their own folders. Anybody can also create the folder of another user, so readers ignore a <user> folder that belongs to a
 * different user, and the jobs of this user keep their histories in the staging root.
 */

const SHARED_FOLDER = 0o750;

export interface HistoryPlace {
  /** URI of the folder that contains the user's histories, one folder per job. */
  readonly folder: string;
  /** Whether other users can read the folder. */
  readonly shared: boolean;
  /** URL of the history server, or null if the site file sets none. */
  readonly url: string | null;
}

export function historyPlace(
  site: KeepingSite,
  user: { readonly user: string; readonly home: string; readonly root: string },
): HistoryPlace {
  const shared = sharedFolder(site, user.home);
  if (shared === null) {
    return { folder: joinUri(user.root, 'history'), shared: false, url: null };
  }
  return { folder: joinUri(shared, user.user), shared: true, url: site.history.url };
}

/**
 * Returns the place for the histories of new jobs, and a note if another user has created the user's folder in the shared folder. The
 * place is then in the staging root.
 */
export async function usableHistoryPlace(
  storage: Pick<Storage, 'stat'>,
  site: KeepingSite,
  user: { readonly user: string; readonly home: string; readonly root: string },
): Promise<{ readonly place: HistoryPlace; readonly notes: readonly string[] }> {
  const place = historyPlace(site, user);
  // If the folder cannot be read, `openHistory` reports the reason.
  const entry = place.shared ? await storage.stat(place.folder).catch(() => null) : null;
  if (entry === null || entry.owner === user.user) {
    return { place, notes: [] };
  }
  const own = { folder: joinUri(user.root, 'history'), shared: false, url: null };
  const owner = entry.owner || 'an unknown user';
  const folder = shellWord(place.folder);
  const note = `${place.folder} belongs to ${owner}, so the job's history is stored in ${own.folder}, and the history server cannot show it. Ask the HDFS admin to remove the folder, and to create it for you: hdfs dfs -mkdir ${folder} && hdfs dfs -chown ${shellWord(user.user)} ${folder} && hdfs dfs -chmod ${SHARED_FOLDER.toString(8)} ${folder}`;
  return { place: own, notes: [note] };
}

/**
 * Returns those of a job's possible history folders whose parent belongs to the job's user. Any user can create the folder of another user
 * in the shared folder, and can forge histories in it.
 */
export async function ownHistoryFolders(
  storage: Pick<Storage, 'stat'>,
  site: KeepingSite,
  reader: { readonly home: string; readonly root: string; readonly user: string },
  job: { readonly user: string; readonly jobId: string },
): Promise<string[]> {
  const shared = sharedFolder(site, reader.home);
  const folders = historyFolders(site, reader, job);
  const isOwn = shared === null || (await storage.stat(joinUri(shared, job.user)))?.owner === job.user;
  return isOwn ? folders : folders.slice(1);
}

/** Returns the possible locations of a job's history, most likely first. The admin may have changed the location since the job ran. */
export function historyFolders(
  site: KeepingSite,
  reader: { readonly home: string; readonly root: string; readonly user: string },
  job: { readonly user: string; readonly jobId: string },
): string[] {
  const shared = sharedFolder(site, reader.home);
  return [
    ...(shared === null ? [] : [joinUri(shared, job.user, job.jobId)]),
    // Skip other users' staging folders, because they are not readable.
    ...(job.user === reader.user ? [joinUri(reader.root, 'history', job.jobId)] : []),
  ];
}

/** Returns the URI of the folder that contains all users' histories, or null if the site file sets none. */
export function sharedFolder(site: KeepingSite, home: string): string | null {
  return placeUri(site.history.dir, home);
}

/** Returns true if the text is a valid user name. A user name is also a folder name. */
export function isUserName(text: string): boolean {
  return text.length <= 256 && /^[^/\p{Cc}]+$/u.test(text) && !/^\.\.?$/.test(text);
}

/** Returns the URL of a job's page on the history server. */
export function historyUrl(server: string, user: string, jobId: string): string {
  return `${server}/jobs/${encodeURIComponent(user)}/${jobId}/`;
}

/** Creates a job's history folder in the shared location. Verifies that the user owns the parent folder. */
export async function openHistory(storage: Storage, { folder, shared }: HistoryPlace, user: string, jobId: string): Promise<void> {
  // If the history is in the private staging root, the ApplicationMaster creates the folder.
  if (!shared) {
    return;
  }
  try {
    if ((await storage.stat(folder)) === null) {
      await storage.makeFolder(folder, SHARED_FOLDER);
    }
    const owner = (await storage.stat(folder))?.owner;
    if (owner !== user) {
      throw new TonyError('HISTORY_UNWRITABLE', `Your history folder ${folder} belongs to ${owner ?? 'an unknown user'}.`);
    }
    await storage.makeFolder(joinUri(folder, jobId), SHARED_FOLDER);
  } catch (error) {
    if (!(error instanceof TonyError && (error.code === 'ACCESS_DENIED' || error.code === 'STORAGE_DENIED'))) {
      throw error;
    }
    throw new TonyError('HISTORY_UNWRITABLE', `Cannot write the job's history to ${folder}: ${error.message}`, { cause: error });
  }
}
