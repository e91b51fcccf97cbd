export interface PatienceOptions {
  /** Whether lower or higher values are better. */
  readonly mode: 'min' | 'max';
  /** Training should stop after this many consecutive values without an improvement. Null means no limit. */
  readonly patience: number | null;
  /** Minimum improvement that resets the count for `patience`. A value that improves by less still becomes the best value. */
  readonly minDelta: number;
}

const HIGHER_IS_BETTER = /acc|precision|recall|auc|f1/i;

/** Returns whether lower or higher values of a metric are better, which its name suggests. */
export function modeOf(metric: string): PatienceOptions['mode'] {
  return HIGHER_IS_BETTER.test(metric) ? 'max' : 'min';
}

export interface Assessment {
  readonly isBest: boolean;
  readonly isEnough: boolean;
}

/** Finds the best value in a series, and reports when the values have stopped improving. NaN never counts as an improvement. */
export class BestSoFar {
  readonly #options: PatienceOptions;
  #best: number | null;
  /** The reference value: a new value must improve on it by more than `minDelta` to reset the count. */
  #reference: number | null;
  #wait = 0;

  /** @param best the best value found by an earlier process, or null if there is none. */
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
