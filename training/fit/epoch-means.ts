import type { StepValues } from '../model/step-part.ts';

/** The maximum number of steps whose values stay on the backend as tensors. */
const MOST_WAITING = 64;

/** An epoch's partial result: the sums of the values, and the number of examples. */
export interface MeansSoFar {
  readonly sums: readonly number[];
  readonly seen: number;
}

/**
 * Computes means over an epoch's examples, in double precision. Reads the values of many steps at once, because each read waits for the
 * backend.
 */
export class EpochMeans {
  readonly #sums: number[];
  #seen = 0;
  #waiting: { readonly values: StepValues; readonly examples: number }[] = [];

  /**
   * @param count the number of values per step.
   * @param before the sums from the process that began the epoch, or null if this process begins the epoch.
   */
  constructor(count: number, before: MeansSoFar | null = null) {
    this.#sums = before?.sums.length === count ? [...before.sums] : new Array<number>(count).fill(0);
    this.#seen = before?.sums.length === count ? before.seen : 0;
  }

  /** Adds a step's values and takes ownership of their tensors. */
  add(values: StepValues, examples: number): void {
    this.#waiting.push({ values, examples });
    if (this.#waiting.length >= MOST_WAITING) {
      this.#read();
    }
  }

  get seen(): number {
    return this.#seen;
  }

  /** Reads all values. Returns the means, or zeros before the first step. */
  read(): number[] {
    this.#read();
    return this.#sums.map((sum) => (this.#seen === 0 ? 0 : sum / this.#seen));
  }

  soFar(): MeansSoFar {
    this.#read();
    return { sums: [...this.#sums], seen: this.#seen };
  }

  dispose(): void {
    for (const { values } of this.#waiting.splice(0)) {
      values.dispose();
    }
  }

  #read(): void {
    for (const { values, examples } of this.#waiting) {
      values.read().forEach((value, index) => {
        this.#sums[index] = (this.#sums[index] ?? 0) + value * examples;
      });
      this.#seen += examples;
    }
    this.dispose();
  }
}
