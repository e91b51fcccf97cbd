import { readTask } from '../../../contract/process/task.ts';
import { SPLITS_FORGOTTEN, SPLITS_JOIN, SPLITS_NEXT } from '../../../contract/services/service-names.ts';
import { Services } from '../../../contract/services/services.ts';
import { type NextSplit, type ReaderKind, SplitPass } from '../../../contract/services/split-pass.ts';
import { pause } from '../../../platform/async/backoff.ts';
import { TonyError } from '../../../platform/errors.ts';
import type { Share } from './share.ts';

/** Identifies a pass over a dataset. All readers use the same values. */
export interface Pass {
  /** A hash of the files and the order of their splits. */
  readonly fingerprint: string;
  readonly splits: number;
  readonly passes: readonly number[];
}

export interface PassPlace extends Pass {
  readonly kind: ReaderKind;
  /** How many times this process had begun the same pass before. This number distinguishes two loops over the same files. */
  readonly reading: number;
  readonly share: Share;
}

/** Returns a text that is the same for all readers of a pass and differs for all other passes. */
export function passId({ fingerprint, splits, passes }: Pass): string {
  return `${splits}/${passes.join(',')}/${fingerprint}`;
}

/**
 * A request to the dispatcher. A reader registers its log with SPLITS_JOIN, and then requests further log entries, one at a time, with
 * SPLITS_NEXT.
 */
export interface SplitRequest extends PassPlace {
  readonly log?: readonly number[];
  /** True if the reader resumes from a checkpoint. Other readers may then have logs, too. */
  readonly restored?: boolean;
  readonly at?: number;
  /** Finished splits. Only `workers` readers use this field. */
  readonly done?: readonly number[];
}

/**
 * Assigns the splits of datasets to readers. In a job, the ApplicationMaster assigns the splits. In a standalone program, the process
 * itself assigns them.
 */
export interface SplitAssigner {
  /** Begins a pass as this share's reader. Returns how many times this process had begun the pass before. */
  begin(pass: Pass, share: Share): number;
  join(place: PassPlace, log: readonly number[], restored: boolean, signal: AbortSignal): Promise<void>;
  /**
   * Returns the next entry of the reader's log, or null after the last entry.
   * @param log all entries so far.
   */
  next(place: PassPlace, log: readonly number[], signal: AbortSignal): Promise<number | null>;
}

let assigner: SplitAssigner | null = null;

/**
 * Returns this process's assigner.
 * @throws TonyError SERVICE_LOST if there are other readers and this task has no connection to the ApplicationMaster.
 */
export function splitAssigner(share: Share): SplitAssigner {
  const task = readTask();
  if (task !== null && task.services === null && share.count > 1) {
    throw new TonyError('SERVICE_LOST', 'this task cannot reach the ApplicationMaster, which assigns the splits of datasets', {
      hint: 'Remove dispatch() from the dataset. Shards are then assigned in advance.',
    });
  }
  assigner ??= task === null || task.services === null ? new LocalSplits().reader() : new RemoteSplits(new Services(task.services));
  return assigner;
}

class Beginnings {
  readonly #counts = new Map<string, number>();

  readonly begin = (pass: Pass, share: Share): number => {
    const key = `${share.index}/${share.count}/${passId(pass)}`;
    const count = this.#counts.get(key) ?? 0;
    this.#counts.set(key, count + 1);
    return count;
  };
}

class RemoteSplits implements SplitAssigner {
  readonly begin = new Beginnings().begin;
  readonly #services: Services;

  constructor(services: Services) {
    this.#services = services;
  }

  async join(place: PassPlace, log: readonly number[], restored: boolean, signal: AbortSignal): Promise<void> {
    await this.#services.ask(SPLITS_JOIN, { ...place, log, restored }, signal);
  }

  async next(place: PassPlace, log: readonly number[], signal: AbortSignal): Promise<number | null> {
    for (;;) {
      const { answer } = await this.#services.ask(SPLITS_NEXT, { ...place, at: log.length }, signal);
      if (answer === SPLITS_FORGOTTEN) {
        await this.join(place, log, true, signal);
      } else if (answer !== 'wait') {
        return answer === 'over' ? null : (answer as { split: number }).split;
      }
    }
  }
}

const PAUSE_MS = 20;
const KEPT_PASSES = 64;

/** Assigns splits within one process, for standalone programs. */
export class LocalSplits {
  readonly #passes = new Map<string, SplitPass>();

  /** Returns an assigner for one reader. All readers of the same LocalSplits object share the splits. */
  reader(): SplitAssigner {
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
      for (const old of [...this.#passes.keys()].slice(0, -KEPT_PASSES)) {
        this.#passes.delete(old);
      }
    }
    pass.register(String(place.share.index), log);
  }

  async #next(place: PassPlace, log: readonly number[], signal: AbortSignal): Promise<number | null> {
    for (;;) {
      signal.throwIfAborted();
      const pass = this.#passes.get(keyOf(place));
      if (pass === undefined) {
        this.#join(place, log, true);
      }
      const next: NextSplit = pass?.next(String(place.share.index), log.length) ?? 'wait';
      if (next === 'over') {
        return null;
      }
      if (next !== 'wait') {
        return next.split;
      }
      await pause(PAUSE_MS, signal);
    }
  }
}

function keyOf(place: PassPlace): string {
  return `${place.reading}/${place.share.count}/${passId(place)}`;
}
