export interface PatienceOptions {
  /** Whether less or more is better. */
  readonly mode: 'min' | 'max';
  /** So many values in a row that are no improvement are enough; null: never. */
  readonly patience: number | null;
  /** What is better by no more than this is no improvement, though it may be the best. */
  readonly minDelta: number;
}

export interface Judgement {
  /** Better than all before. */
  readonly isBest: boolean;
  /** There is no sense in waiting for more. */
  readonly isEnough: boolean;
}

/** Judges one value after the other. NaN is never better. */
export class BestSoFar {
  readonly #options: PatienceOptions;
  #best: number | null;
  /** What an improvement is measured by. */
  #reference: number | null;
  #wait = 0;

  /** @param best of an earlier process. */
  constructor(options: PatienceOptions, best: number | null) {
    this.#options = options;
    this.#best = best;
    this.#reference = best;
  }

  judge(value: number): Judgement {
    const { patience, minDelta } = this.#options;
    const isBest = this.#isBetter(value, this.#best, 0);
    if (isBest) {
      this.#best = value;
    }
    if (this.#isBetter(value, this.#reference, minDelta)) {
      this.#reference = value;
      this.#wait = 0;
    } else {
      this.#wait++;
    }
    return { isBest, isEnough: patience !== null && this.#wait >= patience };
  }

  #isBetter(value: number, than: number | null, by: number): boolean {
    if (Number.isNaN(value)) return false;
    if (than === null) return true;
    return this.#options.mode === 'min' ? value < than - by : value > than + by;
  }
}
