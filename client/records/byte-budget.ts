/** Limits the total memory, in bytes, that concurrent operations use. Operations that would exceed the limit wait in order of arrival. */
export class ByteBudget {
  readonly #most: number;
  #taken = 0;
  readonly #waiting: { readonly bytes: number; readonly begin: () => void }[] = [];

  constructor(most: number) {
    this.#most = most;
  }

  /** Runs `work` as soon as the budget has room for `bytes`. If `bytes` exceeds the entire budget, `work` runs alone. */
  async use<T>(bytes: number, work: () => Promise<T>): Promise<T> {
    const share = Math.min(bytes, this.#most);
    if (this.#waiting.length > 0 || this.#taken + share > this.#most) {
      await new Promise<void>((begin) => this.#waiting.push({ bytes: share, begin }));
    } else {
      this.#taken += share;
    }
    try {
      return await work();
    } finally {
      this.#taken -= share;
      this.#next();
    }
  }

  #next(): void {
    for (let [first] = this.#waiting; first !== undefined && this.#taken + first.bytes <= this.#most; [first] = this.#waiting) {
      this.#waiting.shift();
      this.#taken += first.bytes;
      first.begin();
    }
  }
}
