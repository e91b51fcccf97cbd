import type { StepValues } from './step-part.ts';

/** So many steps' values wait on the backend; small, since each is a tensor there. */
const MOST_WAITING = 64;

/** Means over an epoch's examples. Values are read from the backend many at a time, and summed in double precision. */
export class EpochMeans {
  readonly #sums: number[];
  #seen = 0;
  #waiting: { readonly values: StepValues; readonly examples: number }[] = [];

  /** @param count how many values a step has. */
  constructor(count: number) {
    this.#sums = new Array<number>(count).fill(0);
  }

  /** @param values of a step, disposed of here. */
  add(values: StepValues, examples: number): void {
    this.#waiting.push({ values, examples });
    if (this.#waiting.length >= MOST_WAITING) {
      this.#read();
    }
  }

  /** Examples that have been read. */
  get seen(): number {
    return this.#seen;
  }

  /** 0 before any step. */
  read(): number[] {
    this.#read();
    return this.#sums.map((sum) => (this.#seen === 0 ? 0 : sum / this.#seen));
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
