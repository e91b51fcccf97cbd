import { existsSync, rmSync } from 'node:fs';

/**
 * The interval in ms at which the program checks for an order. YARN announces a preemption a few seconds before it takes containers away.
 */
const LOOK_MS = 250;

/**
 * An order from the executor to take a checkpoint immediately. The executor creates a file, which the program removes when it takes the
 * checkpoint. A program can receive several orders, one after another.
 */
export class CheckpointOrder {
  readonly #file: string | null;
  readonly #now: () => number;
  #lookedAt = Number.NEGATIVE_INFINITY;
  #isGiven = false;

  /** @param file the task's `checkpointOrder`; null if the task receives no orders. */
  constructor(file: string | null, now: () => number = () => performance.now()) {
    this.#file = file;
    this.#now = now;
  }

  /** True if an order is pending. Cheap enough to call in every step. */
  get isGiven(): boolean {
    const now = this.#now();
    if (this.#file !== null && !this.#isGiven && now - this.#lookedAt >= LOOK_MS) {
      this.#lookedAt = now;
      this.#isGiven = existsSync(this.#file);
    }
    return this.#isGiven;
  }

  /** Removes the order. Call it after every checkpoint, even if another rank received the order. */
  taken(): void {
    if (this.#file !== null && this.isGiven) {
      rmSync(this.#file, { force: true });
    }
    this.#isGiven = false;
  }
}
