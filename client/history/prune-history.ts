import { messageOf, TonyError } from '../../conf/errors.ts';
import type { Storage } from '../../storage/storage.ts';
import { byAge, type HistoryStore, type JobPlace } from './history-store.ts';
import type { ClusterAnswer } from './stored-status.ts';

const AT_ONCE = 8;

export interface PruneOptions {
  /** Null: of all users whose histories may be written. */
  readonly user: string | null;
  /** Histories in which nothing was written for longer go (ms). */
  readonly olderThanMs: number;
  readonly dryRun: boolean;
  /** ms since the epoch. */
  readonly now: number;
}

export interface Pruned {
  readonly place: JobPlace;
  readonly bytes: number;
  /** ms since the epoch. */
  readonly lastWritten: number;
  /** Why it is there still; empty when it is gone (or would be). */
  readonly failure: string;
}

/** Removes old histories, the oldest first, and tells of each. One of a job that may still run is never touched. */
export async function* pruneHistory(store: HistoryStore, options: PruneOptions): AsyncGenerator<Pruned> {
  const { user, olderThanMs, dryRun, now } = options;
  const users = user === null ? await store.users() : [user];
  for (const each of users) {
    let places: JobPlace[];
    try {
      places = (await store.places(each)).sort(byAge).reverse();
    } catch (error) {
      // Another user's that are not ours to see are not ours to remove.
      if (error instanceof TonyError && error.code === 'ACCESS_DENIED') continue;
      throw error;
    }
    for (let at = 0; at < places.length; at += AT_ONCE) {
      const batch = places.slice(at, at + AT_ONCE);
      const looked = await Promise.all(batch.map((place) => measure(store.storage, place)));
      const old = looked.filter(({ lastWritten }) => now - lastWritten > olderThanMs);
      const open = old.filter(({ ended }) => !ended).map(({ place }) => place.applicationId);
      const answers = await store.answers(open);
      for (const { place, bytes, lastWritten, ended } of old) {
        if (!ended && mayRun(answers.get(place.applicationId))) continue;
        const failure = dryRun ? '' : await remove(store.storage, place);
        yield { place, bytes, lastWritten, failure };
      }
    }
  }
}

function mayRun(answer: ClusterAnswer | undefined): boolean {
  return answer === undefined || answer === 'silent' || (typeof answer === 'object' && answer.result === null);
}

async function remove(storage: Storage, { folder }: JobPlace): Promise<string> {
  try {
    await storage.remove(folder);
    return '';
  } catch (error) {
    if (error instanceof TonyError && error.exitCode === 3) throw error;
    return messageOf(error);
  }
}

interface Measured {
  readonly place: JobPlace;
  readonly bytes: number;
  readonly lastWritten: number;
  /** It has left its end. */
  readonly ended: boolean;
}

async function measure(storage: Storage, place: JobPlace): Promise<Measured> {
  let bytes = 0;
  let lastWritten = (await storage.stat(place.folder))?.modifiedAt ?? 0;
  let ended = false;
  const folders = [place.folder];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    const entries = await storage.list(folder);
    if (folder === place.folder) ended = entries.some(({ name, type }) => name === 'final.json' && type === 'file');
    for (const entry of entries) {
      if (entry.type === 'folder') folders.push(entry.uri);
      bytes += entry.size;
      lastWritten = Math.max(lastWritten, entry.modifiedAt);
    }
  }
  return { place, bytes, lastWritten, ended };
}
