import { TonyError } from '../../conf/errors.ts';

/** `wait`: nothing now, but perhaps later. `over`: nothing any more. */
export type NextSplit = { readonly split: number } | 'wait' | 'over';

/**
 * `shares`: what was given to a reader stays with it. It stands for a share of the dataset, whoever reads that, and where all of them stand is
 * in the checkpoint. `workers`: a reader is one process; what it has not finished when it dies is given to others.
 */
export type ReaderKind = 'shares' | 'workers';

export interface PassDescription {
  readonly kind: ReaderKind;
  /** They are numbered from 0. */
  readonly splits: number;
  /** Tells the files, with what is in them, from others. */
  readonly fingerprint: string;
  /** Nothing is given out before so many readers have told what they had; 0: nobody had anything. */
  readonly awaited: number;
}

/** As it is written down. */
export interface StoredPass extends PassDescription {
  readonly logs: Readonly<Record<string, readonly number[]>>;
  readonly done: readonly number[];
}

/** One dataset of a thousand splits may be read by a thousand; more would be a mistake, and memory. */
export const MAXIMUM_SPLITS = 1_000_000;

/**
 * One pass over the splits of a dataset, given out on demand. Each reader has a log: the splits it got, in order. To ask for number `n` of it
 * again gives the same split again, so a question may be said twice, by a reader that goes on from an earlier place in it, or by two that
 * read the same share; and whoever knows the logs knows everything, which is how a pass goes on behind a checkpoint, or in another process.
 */
export class SplitPass {
  readonly description: PassDescription;
  readonly #logs = new Map<string, number[]>();
  readonly #done = new Set<number>();
  /** Given to somebody, or done. */
  readonly #taken = new Set<number>();
  /** All splits before it are taken. */
  #lowest = 0;

  constructor(description: PassDescription) {
    const { splits } = description;
    if (!Number.isInteger(splits) || splits < 0 || splits > MAXIMUM_SPLITS) {
      throw new TonyError('DATA_INVALID', `a dataset of ${splits} splits cannot be dispatched; it may have ${MAXIMUM_SPLITS}`);
    }
    this.description = description;
  }

  static restore(stored: StoredPass): SplitPass {
    const pass = new SplitPass(stored);
    for (const [reader, log] of Object.entries(stored.logs)) pass.tell(reader, log);
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
   * A reader comes, with what it had got before.
   * @returns whether something is known now that was not.
   * @throws TonyError DATA_INVALID when that does not fit to what others have.
   */
  tell(reader: string, log: readonly number[]): boolean {
    const known = this.#logs.get(reader);
    const mine = known ?? [];
    const news = log.slice(mine.length);
    const fits = log.slice(0, mine.length).every((split, at) => split === mine[at]);
    const isFree = (split: number) => Number.isInteger(split) && split >= 0 && split < this.description.splits && !this.#taken.has(split);
    if (!fits || new Set(news).size < news.length || !news.every(isFree)) {
      throw new TonyError('DATA_INVALID', 'the readers of the dataset do not stand at places that belong together', {
        hint: "Restore all readers' states from one checkpoint, and read equally many datasets in the same order on each worker.",
      });
    }
    for (const split of news) this.#taken.add(split);
    this.#logs.set(reader, [...mine, ...news]);
    return known === undefined || news.length > 0;
  }

  /** Number `at` of a reader's log. */
  next(reader: string, at: number): NextSplit {
    const log = this.#logs.get(reader);
    if (log === undefined || at > log.length)
      throw new TonyError('INTERNAL', `reader ${reader} asks for split ${at} of its ${log?.length ?? 0}`);
    const known = log[at];
    if (known !== undefined) return { split: known };
    if (this.#logs.size < this.description.awaited) return 'wait';
    const { splits, kind } = this.description;
    while (this.#lowest < splits && this.#taken.has(this.#lowest)) this.#lowest++;
    if (this.#lowest < splits) {
      log.push(this.#lowest);
      this.#taken.add(this.#lowest);
      return { split: this.#lowest };
    }
    // Another worker may die with what it holds.
    return kind === 'shares' || this.#done.size === splits ? 'over' : 'wait';
  }

  /** A worker has finished a split: nobody gets it again. False when that is known, or when it was not its own any more. */
  done(reader: string, split: number): boolean {
    if (this.#done.has(split) || this.#logs.get(reader)?.includes(split) !== true) return false;
    this.#done.add(split);
    return true;
  }

  /** A worker is dead: what it had not finished is given to others. */
  leave(reader: string): void {
    for (const split of this.#logs.get(reader) ?? []) {
      if (this.#done.has(split)) continue;
      this.#taken.delete(split);
      this.#lowest = Math.min(this.#lowest, split);
    }
    this.#logs.delete(reader);
  }

  get readers(): readonly string[] {
    return [...this.#logs.keys()];
  }

  /** So many splits it has got; null when it is not known. */
  countOf(reader: string): number | null {
    return this.#logs.get(reader)?.length ?? null;
  }
}
