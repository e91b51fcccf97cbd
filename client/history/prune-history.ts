import { checkOptions, type OptionNames } from '../../platform/check-options.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { ifCode } from '../../platform/if-code.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import { entriesBelow } from '../files/entries-below.ts';
import { byAge, type HistoryStore } from '../records/history-store.ts';
import type { JobPlace } from '../records/job-place.ts';
import { mayRun } from '../records/stored-status.ts';

const AT_ONCE = 8;

export interface PruneOptions {
  /** User whose histories to remove, or null for all histories that the caller may remove. */
  readonly user: string | null;
  /** Minimum age (ms) of the histories to remove, measured from their last write. */
  readonly olderThanMs: number;
  readonly dryRun: boolean;
  /** Current time in ms since the epoch. */
  readonly now: number;
}

const PRUNE_OPTIONS: OptionNames<PruneOptions> = { user: true, olderThanMs: true, dryRun: true, now: true };

export interface Pruned {
  readonly place: JobPlace;
  readonly bytes: number;
  /** When the history was last written, in ms since the epoch. */
  readonly writtenAt: number;
  /** Error message if the removal failed. Empty after a successful removal and in a dry run. */
  readonly failure: string;
}

/** Removes old histories, oldest first, and yields a result for each. Keeps the histories of jobs that may still be running. */
export async function* pruneHistory(store: HistoryStore, options: PruneOptions): AsyncGenerator<Pruned> {
  checkOptions('pruneHistory', options, PRUNE_OPTIONS);
  const { user, olderThanMs, dryRun, now } = options;
  const users = user === null ? (await store.users()).found : [user];
  for (const each of users) {
    // Skip a folder that the caller can neither read nor change.
    const { found } = await store.places(each).catch(ifCode('ACCESS_DENIED', { found: [] }));
    const places = found.toSorted(byAge).reverse();
    for (let at = 0; at < places.length; at += AT_ONCE) {
      const batch = places.slice(at, at + AT_ONCE);
      const looked: Measured[] = [];
      for (const outcome of await Promise.allSettled(batch.map((place) => measure(store.storage, place)))) {
        if (outcome.status === 'fulfilled') {
          looked.push(outcome.value);
        }
        // Skip a history that the caller may not read.
        else if (!(outcome.reason instanceof TonyError && outcome.reason.code === 'ACCESS_DENIED')) {
          throw outcome.reason;
        }
      }
      const old = looked.filter(({ writtenAt }) => now - writtenAt > olderThanMs);
      const open = old.filter(({ ended }) => !ended).map(({ place }) => place);
      const answers = await store.answers(open);
      for (const { place, bytes, writtenAt, ended } of old) {
        if (!ended && mayRun(answers.get(place.folder))) {
          continue;
        }
        const failure = dryRun ? '' : await remove(store.storage, place);
        yield { place, bytes, writtenAt, failure };
      }
    }
  }
}

async function remove(storage: Storage, { folder }: JobPlace): Promise<string> {
  try {
    await storage.remove(folder);
    return '';
  } catch (error) {
    if (error instanceof TonyError && error.unreachable) {
      throw error;
    }
    return messageOf(error);
  }
}

interface Measured {
  readonly place: JobPlace;
  readonly bytes: number;
  readonly writtenAt: number;
  readonly ended: boolean;
}

async function measure(storage: Storage, place: JobPlace): Promise<Measured> {
  let bytes = 0;
  let writtenAt = (await storage.stat(place.folder))?.modifiedAt ?? 0;
  let ended = false;
  const end = joinUri(place.folder, 'final.json');
  for await (const { uri, type, size, modifiedAt } of entriesBelow(storage, place.folder)) {
    if (uri === end && type === 'file') {
      ended = true;
    }
    bytes += size;
    writtenAt = Math.max(writtenAt, modifiedAt);
  }
  return { place, bytes, writtenAt, ended };
}
