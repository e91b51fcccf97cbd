export interface PatienceOptions {
  /** Whether lower or higher values are better. */
  readonly mode: 'min' | 'max';
  /** The number of consecutive values without an improvement after which training should stop; null for no limit. */
  readonly patience: number | null;
  /** The minimum improvement that resets `patience`. A smaller improvement still becomes the best value. */
  readonly minDelta: number;
}

export interface Assessment {
  readonly isBest: boolean;
  readonly isEnough: boolean;
}

/** Finds the best value of a series and detects when the values stop improving. NaN is never better. */
export class BestSoFar {
  readonly #options: PatienceOptions;
  #best: number | null;
  /** The baseline for `minDelta`: the last value that improved on the previous baseline by more than `minDelta`. */
  #reference: number | null;
  #wait = 0;

  /** @param best the best value that an earlier process found; null if there is none. */
  constructor(options: PatienceOptions, best: number | null) {
    this.#options = options;
    this.#best = best;
    this.#reference = best;
  }

  add(value: number): Assessment {
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
    if (Number.isNaN(value)) {
      return false;
    }
    if (than === null) {
      return true;
    }
    return this.#options.mode === 'min' ? value < than - by : value > than + by;
  }
}
