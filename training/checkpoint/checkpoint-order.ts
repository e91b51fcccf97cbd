import { existsSync, rmSync } from 'node:fs';

/** The interval, in ms, at which the program checks for an order. YARN announces a preemption some seconds before it takes containers. */
const LOOK_MS = 250;

/**
 * The executor's order to store a checkpoint at once. The executor creates a file, and the program removes the file when it takes the
 * checkpoint. A program can receive several orders, one after the other.
 */
export class CheckpointOrder {
  readonly #file: string | null;
  readonly #now: () => number;
  #lookedAt = Number.NEGATIVE_INFINITY;
  #isGiven = false;

  /** @param file `checkpointOrder` of the task; null if the task receives no orders. */
  constructor(file: string | null, now: () => number = () => performance.now()) {
    this.#file = file;
    this.#now = now;
  }

  /** Whether an order is pending. The check is cheap enough for every step. */
  get isGiven(): boolean {
    const now = this.#now();
    if (this.#file !== null && !this.#isGiven && now - this.#lookedAt >= LOOK_MS) {
      this.#lookedAt = now;
      this.#isGiven = existsSync(this.#file);
    }
    return this.#isGiven;
  }

  /** Removes the order. Call it whenever a checkpoint is taken, even if the order came from another rank. */
  taken(): void {
    if (this.#file !== null && this.isGiven) {
      rmSync(this.#file, { force: true });
    }
    this.#isGiven = false;
  }
}
