import { existsSync, rmSync } from 'node:fs';

/** Interval in ms at which `isGiven` looks for the file. YARN reclaims containers only a few seconds after it announces a preemption. */
const LOOK_MS = 250;

/**
 * An order from the executor to write a checkpoint immediately. The executor gives the order by creating a file. The program removes the
 * file when it takes the checkpoint, so the executor can give another order later.
 */
export class CheckpointOrder {
  readonly #file: string | null;
  readonly #now: () => number;
  #lookedAt = Number.NEGATIVE_INFINITY;
  #isGiven = false;

  /** @param file the path of the file that the executor creates, or null if the task does not receive orders. */
  constructor(file: string | null, now: () => number = () => performance.now()) {
    this.#file = file;
    this.#now = now;
  }

  /** True if the executor has given an order. Cheap enough to check in every step. */
  get isGiven(): boolean {
    const now = this.#now();
    if (this.#file !== null && !this.#isGiven && now - this.#lookedAt >= LOOK_MS) {
      this.#lookedAt = now;
      this.#isGiven = existsSync(this.#file);
    }
    return this.#isGiven;
  }

  /**
   * Removes this rank's order, if there is one. Must be called after every checkpoint, even if the checkpoint was taken for another reason,
   * such as another rank's order.
   */
  taken(): void {
    if (this.#file !== null && this.isGiven) {
      rmSync(this.#file, { force: true });
    }
    this.#isGiven = false;
  }
}
