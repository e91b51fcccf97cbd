/** Keeps the first and the newest values in a sequence, and limits the total weight of each of these two groups. */
export class FirstAndNewest<T> {
  readonly #bounds: { readonly first: number; readonly newest: number };
  readonly #first: T[] = [];
  #firstWeight = 0;
  #isFirstFull = false;
  #newest: { readonly value: T; readonly weight: number }[] = [];
  #newestWeight = 0;
  /**
   * Index of the oldest value in `#newest` that is still kept. Older values are removed in batches, because each removal copies the array.
   */
  #begin = 0;

  constructor(bounds: { readonly first: number; readonly newest: number }) {
    this.#bounds = bounds;
  }

  add(value: T, weight: number): void {
    this.#isFirstFull ||= this.#firstWeight + weight > this.#bounds.first;
    if (!this.#isFirstFull) {
      this.#first.push(value);
      this.#firstWeight += weight;
      return;
    }
    this.#newest.push({ value, weight });
    this.#newestWeight += weight;
    while (this.#newestWeight > this.#bounds.newest) {
      this.#newestWeight -= this.#newest[this.#begin]?.weight ?? 0;
      this.#begin++;
    }
    if (this.#begin * 2 > this.#newest.length) {
      this.#newest = this.#newest.slice(this.#begin);
      this.#begin = 0;
    }
  }

  get values(): T[] {
    return [...this.#first, ...this.#newest.slice(this.#begin).map(({ value }) => value)];
  }

  get weight(): number {
    return this.#firstWeight + this.#newestWeight;
  }
}

/**
 * Keeps an evenly spaced subset of a sequence. The total weight of the subset is at most `most`, and the subset always contains the newest
 * value.
 */
export class Thinned<T> {
  readonly #most: number;
  #kept: { readonly value: T; readonly weight: number }[] = [];
  #weight = 0;
  #newest: { readonly value: T; readonly weight: number } | null = null;
  #count = 0;
  #every = 1;

  constructor(most: number) {
    this.#most = most;
  }

  add(value: T, weight: number): void {
    this.#newest = { value, weight };
    if (this.#count++ % this.#every !== 0) {
      return;
    }
    this.#kept.push(this.#newest);
    this.#weight += weight;
    while (this.#weight > this.#most && this.#kept.length > 1) {
      this.#kept = this.#kept.filter((_, at) => at % 2 === 0);
      this.#every *= 2;
      this.#weight = this.#kept.reduce((sum, each) => sum + each.weight, 0);
    }
  }

  get values(): T[] {
    const values = this.#kept.map(({ value }) => value);
    return this.#newest === null || this.#isNewestKept() ? values : [...values, this.#newest.value];
  }

  get weight(): number {
    return this.#newest === null || this.#isNewestKept() ? this.#weight : this.#weight + this.#newest.weight;
  }

  #isNewestKept(): boolean {
    return this.#kept.at(-1) === this.#newest;
  }
}
