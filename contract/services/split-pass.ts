import { TonyError } from '../../platform/errors.ts';

/**
 * The response to a reader that requests a split. With `wait`, a split may become available later. With `over`, the reader gets no more
 * splits.
 */
export type NextSplit = { readonly split: number } | 'wait' | 'over';

/**
 * With `shares`, each reader reads a share of the dataset. If another process continues the share, the share keeps its splits, because
 * checkpoints contain the logs of all shares. With `workers`, each reader is a process. If the process fails, its unfinished splits go to
 * other workers.
 */
export type ReaderKind = 'shares' | 'workers';

export interface PassDescription {
  readonly kind: ReaderKind;
  readonly splits: number;
  readonly fingerprint: string;
  /** Number of readers that must register before the pass assigns splits, because they may have earlier logs. 0 for a new pass. */
  readonly awaited: number;
}

export interface StoredPass extends PassDescription {
  readonly logs: Readonly<Record<string, readonly number[]>>;
  readonly done: readonly number[];
}

/** Maximum number of splits, which limits a pass's memory use. A dataset with more splits is probably a mistake. */
export const MAXIMUM_SPLITS = 1_000_000;

/**
 * A pass over the splits of a dataset, which are assigned on demand. Each reader has a log of its splits, and every request for entry `n`
 * of a log returns the same split. A reader can therefore resend a request or resume at an earlier position, and two processes can read the
 * same share. The logs and the splits finished by workers are the complete state of the pass, so the pass can continue from a checkpoint or
 * in another process.
 */
export class SplitPass {
  readonly description: PassDescription;
  readonly #logs = new Map<string, number[]>();
  readonly #done = new Set<number>();
  readonly #taken = new Set<number>();
  /** All splits with lower numbers are taken. */
  #lowest = 0;

  constructor(description: PassDescription) {
    const { splits } = description;
    if (!Number.isInteger(splits) || splits < 0 || splits > MAXIMUM_SPLITS) {
      throw new TonyError('DATA_INVALID', `a dataset with ${splits} splits cannot be dispatched, because the maximum is ${MAXIMUM_SPLITS}`);
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
   * Registers a reader with its log.
   * @returns true if the reader or part of its log was new to the pass.
   * @throws TonyError DATA_INVALID if the log contradicts the logs of other readers.
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

  /** Returns entry `at` of a reader's log. If the log does not contain the entry yet, assigns a split. */
  next(reader: string, at: number): NextSplit {
    const log = this.#logs.get(reader);
    if (log === undefined || at > log.length) {
      throw new TonyError('INTERNAL', `reader ${reader} requests split ${at}, but its log contains only ${log?.length ?? 0}`);
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
    // If a worker fails, its splits become available again, so other workers wait until all splits are finished.
    return kind === 'shares' || this.#done.size === splits ? 'over' : 'wait';
  }

  /**
   * Marks a worker's split as finished, so that it is not assigned again. Returns false if the split was finished already or no longer
   * belongs to this worker.
   */
  done(reader: string, split: number): boolean {
    if (this.#done.has(split) || this.#logs.get(reader)?.includes(split) !== true) {
      return false;
    }
    this.#done.add(split);
    return true;
  }

  /** Removes a failed worker, so that other workers can get its unfinished splits. */
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

  /** Returns the number of splits that a reader has received, or null if the reader is unknown. */
  countOf(reader: string): number | null {
    return this.#logs.get(reader)?.length ?? null;
  }
}
