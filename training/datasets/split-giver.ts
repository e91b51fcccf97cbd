import { setTimeout as delay } from 'node:timers/promises';
import { TonyError } from '../../conf/errors.ts';
import { SPLITS_FORGOTTEN, SPLITS_JOIN, SPLITS_NEXT } from '../service-names.ts';
import { Services } from '../services.ts';
import { readTask } from '../task.ts';
import type { Share } from './read-context.ts';
import { type NextSplit, type ReaderKind, SplitPass } from './split-pass.ts';

/** One pass over one dataset, the same for all who read it. */
export interface PassPlace {
  readonly kind: ReaderKind;
  /** Tells the files, with what is in them, and the order of the splits from others. */
  readonly fingerprint: string;
  readonly splits: number;
  /** Which pass it is; and how often this process has begun that very pass before. */
  readonly passes: readonly number[];
  readonly reading: number;
  readonly share: Share;
}

/** What a service is asked: SPLITS_JOIN with the log so far, then SPLITS_NEXT for one number of it after the other. */
export interface SplitQuestion extends PassPlace {
  readonly log?: readonly number[];
  /** The reader goes on behind a checkpoint: others may have something too. */
  readonly restored?: boolean;
  readonly at?: number;
  /** Of a worker: what it has finished. */
  readonly done?: readonly number[];
}

/** Gives out the splits of datasets: the ApplicationMaster, or this process when the program runs by itself. */
export interface SplitGiver {
  /** Counts how often a pass is begun here: two loops over the same files are two passes. */
  begin(pass: string): number;
  join(place: PassPlace, log: readonly number[], restored: boolean, signal: AbortSignal): Promise<void>;
  /** Number `at` of the reader's log; null: there is none. @param log all that it has. */
  next(place: PassPlace, log: readonly number[], signal: AbortSignal): Promise<number | null>;
}

let giver: SplitGiver | null = null;

/**
 * The one of this process.
 * @throws TonyError SERVICE_LOST when there are others and no way to divide the splits with them.
 */
export function splitGiver(share: Share): SplitGiver {
  const task = readTask();
  if (task !== null && task.services === null && share.count > 1) {
    throw new TonyError('SERVICE_LOST', 'this task has no way to the ApplicationMaster, which gives out the splits of datasets', {
      hint: 'Leave dispatch() out of the dataset: shares are then dealt out in advance.',
    });
  }
  giver ??= task === null || task.services === null ? new OwnSplits().reader() : new ServedSplits(new Services(task.services));
  return giver;
}

class Beginnings {
  readonly #counts = new Map<string, number>();

  readonly begin = (pass: string): number => {
    const count = this.#counts.get(pass) ?? 0;
    this.#counts.set(pass, count + 1);
    return count;
  };
}

class ServedSplits implements SplitGiver {
  readonly begin = new Beginnings().begin;
  readonly #services: Services;

  constructor(services: Services) {
    this.#services = services;
  }

  async join(place: PassPlace, log: readonly number[], restored: boolean, signal: AbortSignal): Promise<void> {
    await this.#services.ask(SPLITS_JOIN, { ...place, share: { ...place.share }, log, restored }, signal);
  }

  async next(place: PassPlace, log: readonly number[], signal: AbortSignal): Promise<number | null> {
    for (;;) {
      const { answer } = await this.#services.ask(SPLITS_NEXT, { ...place, share: { ...place.share }, at: log.length }, signal);
      if (answer === SPLITS_FORGOTTEN) await this.join(place, log, true, signal);
      else if (answer !== 'wait') return answer === 'over' ? null : (answer as { split: number }).split;
    }
  }
}

const PAUSE_MS = 20;
/** Passes that were not asked for last are forgotten beyond these. */
const KEPT_PASSES = 64;

/** In one process, for programs that run by themselves. */
export class OwnSplits {
  readonly #passes = new Map<string, SplitPass>();

  /** For one of those among whom the splits are divided. */
  reader(): SplitGiver {
    return {
      begin: new Beginnings().begin,
      join: async (place, log, restored) => this.#join(place, log, restored),
      next: (place, log, signal) => this.#next(place, log, signal),
    };
  }

  #join(place: PassPlace, log: readonly number[], restored: boolean): void {
    const key = keyOf(place);
    let pass = this.#passes.get(key);
    if (pass === undefined) {
      const { kind, splits, fingerprint, share } = place;
      pass = new SplitPass({ kind, splits, fingerprint, awaited: restored ? share.count : 0 });
      this.#passes.set(key, pass);
      for (const old of [...this.#passes.keys()].slice(0, -KEPT_PASSES)) this.#passes.delete(old);
    }
    pass.tell(String(place.share.index), log);
  }

  async #next(place: PassPlace, log: readonly number[], signal: AbortSignal): Promise<number | null> {
    for (;;) {
      signal.throwIfAborted();
      const pass = this.#passes.get(keyOf(place));
      if (pass === undefined) this.#join(place, log, true);
      const next: NextSplit = pass?.next(String(place.share.index), log.length) ?? 'wait';
      if (next === 'over') return null;
      if (next !== 'wait') return next.split;
      await delay(PAUSE_MS, undefined, { signal }).catch(() => {});
    }
  }
}

/** The same for all readers of the pass. */
function keyOf({ fingerprint, splits, passes, reading, share }: PassPlace): string {
  return JSON.stringify([fingerprint, splits, passes, reading, share.count]);
}
