/** Cache with a limit on the total weight of its values. Evicts the least recently used values first. */
export class WeightedCache<Key, Value> {
  readonly #most: number;
  /** Entries, least recently used first. */
  readonly #entries = new Map<Key, { readonly value: Value; readonly weight: number }>();
  #weight = 0;

  constructor(most: number) {
    this.#most = most;
  }

  get(key: Key): Value | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) {
      return undefined;
    }
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry.value;
  }

  /** Stores a value, unless its weight alone exceeds the limit. */
  set(key: Key, value: Value, weight: number): void {
    this.delete(key);
    if (weight > this.#most) {
      return;
    }
    this.#entries.set(key, { value, weight });
    this.#weight += weight;
    for (const [oldest] of this.#entries) {
      if (this.#weight <= this.#most) {
        break;
      }
      this.delete(oldest);
    }
  }

  delete(key: Key): void {
    this.#weight -= this.#entries.get(key)?.weight ?? 0;
    this.#entries.delete(key);
  }
}
