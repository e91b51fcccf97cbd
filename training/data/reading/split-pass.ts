import { TonyError } from '../../../platform/errors.ts';

/** `wait`: no split is available now, but a split may become available later. `over`: the reader gets no more splits. */
export type NextSplit = { readonly split: number } | 'wait' | 'over';

/**
 * `shares`: each reader is a share of the dataset. A share keeps its splits if another process continues it, because checkpoints contain
 * the logs of all shares. `workers`: each reader is a process. When a process fails, other workers get its unfinished splits.
 */
export type ReaderKind = 'shares' | 'workers';

export interface PassDescription {
  readonly kind: ReaderKind;
  readonly splits: number;
  readonly fingerprint: string;
  /** The number of readers that must register their logs before the pass assigns splits; 0 for a pass without earlier logs. */
  readonly awaited: number;
}

export interface StoredPass extends PassDescription {
  readonly logs: Readonly<Record<string, readonly number[]>>;
  readonly done: readonly number[];
}

/** Limits the memory of a pass. A larger number of splits is probably a mistake in the dataset. */
export const MAXIMUM_SPLITS = 1_000_000;

/**
 * One pass over the splits of a dataset, which are assigned on demand. Each reader has an ordered log of its splits. Every request for
 * entry `n` of a log returns the same split. A reader may therefore repeat a request or resume at an earlier position, and two processes
 * may read the same share. The logs and the workers' finished splits are the complete state. A pass can therefore continue from a
 * checkpoint or in another process.
 */
export class SplitPass {
  readonly description: PassDescription;
  readonly #logs = new Map<string, number[]>();
  readonly #done = new Set<number>();
  readonly #taken = new Set<number>();
  /** All splits below this number are taken. */
  #lowest = 0;

  constructor(description: PassDescription) {
    const { splits } = description;
    if (!Number.isInteger(splits) || splits < 0 || splits > MAXIMUM_SPLITS) {
      throw new TonyError('DATA_INVALID', `a dataset of ${splits} splits cannot be dispatched; the maximum is ${MAXIMUM_SPLITS}`);
    }
    this.description = description;
  }

  static restore(stored: StoredPass): SplitPass {
    const pass = new SplitPass(stored);
    for (const [reader, log] of Object.entries(stored.logs)) {
      pass.register(reader, log);
    }
    for (const split of stored.done) {
      pass.#done.add(split);
      pass.#taken.add(split);
    }
    return pass;
  }

  store(): StoredPass {
    return { ...this.description, logs: Object.fromEntries(this.#logs), done: [...this.#done] };
  }

  /**
   * Registers a reader with its earlier log.
   * @returns true if the reader or part of its log was new to the pass.
   * @throws TonyError DATA_INVALID when the log contradicts the logs of other readers.
   */
  register(reader: string, log: readonly number[]): boolean {
    const known = this.#logs.get(reader);
    const mine = known ?? [];
    const news = log.slice(mine.length);
    const fits = log.slice(0, mine.length).every((split, at) => split === mine[at]);
    const isFree = (split: number) => Number.isInteger(split) && split >= 0 && split < this.description.splits && !this.#taken.has(split);
    if (!fits || new Set(news).size < news.length || !news.every(isFree)) {
      throw new TonyError('DATA_INVALID', "the stored positions of the dataset's readers do not match", {
        hint: "Restore all readers' states from one checkpoint, and read the same number of datasets in the same order on each worker.",
      });
    }
    for (const split of news) {
      this.#taken.add(split);
    }
    this.#logs.set(reader, [...mine, ...news]);
    return known === undefined || news.length > 0;
  }

  /** Returns entry `at` of a reader's log. If the entry is new, assigns a split to it. */
  next(reader: string, at: number): NextSplit {
    const log = this.#logs.get(reader);
    if (log === undefined || at > log.length) {
      throw new TonyError('INTERNAL', `reader ${reader} requests split ${at} of its log, which has ${log?.length ?? 0}`);
    }
    const known = log[at];
    if (known !== undefined) {
      return { split: known };
    }
    if (this.#logs.size < this.description.awaited) {
      return 'wait';
    }
    const { splits, kind } = this.description;
    while (this.#lowest < splits && this.#taken.has(this.#lowest)) {
      this.#lowest++;
    }
    if (this.#lowest < splits) {
      log.push(this.#lowest);
      this.#taken.add(this.#lowest);
      return { split: this.#lowest };
    }
    // Workers wait until all splits are finished, because the splits of a failed worker become available again.
    return kind === 'shares' || this.#done.size === splits ? 'over' : 'wait';
  }

  /**
   * Marks a worker's split as finished, so it is never assigned again. Returns false if the split was already finished or is no longer
   * assigned to this worker.
   */
  done(reader: string, split: number): boolean {
    if (this.#done.has(split) || this.#logs.get(reader)?.includes(split) !== true) {
      return false;
    }
    this.#done.add(split);
    return true;
  }

  /** Removes a failed worker. Its unfinished splits become available to other workers. */
  removeReader(reader: string): void {
    for (const split of this.#logs.get(reader) ?? []) {
      if (this.#done.has(split)) {
        continue;
      }
      this.#taken.delete(split);
      this.#lowest = Math.min(this.#lowest, split);
    }
    this.#logs.delete(reader);
  }

  get readers(): readonly string[] {
    return [...this.#logs.keys()];
  }

  /** Returns the number of splits that a reader has received, or null for an unknown reader. */
  countOf(reader: string): number | null {
    return this.#logs.get(reader)?.length ?? null;
  }
}
