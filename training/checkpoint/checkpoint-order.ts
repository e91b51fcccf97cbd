import { existsSync, rmSync } from 'node:fs';

/** How often the program looks for an order (ms). YARN announces a preemption some seconds before it takes containers. */
const LOOK_MS = 250;

/**
 * The executor's order to store a checkpoint at once: a file, which the program removes when it takes the checkpoint. An executor may give
 * several orders during one program.
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

  /** Whether an order waits. Cheap enough for every step. */
  get isGiven(): boolean {
    const now = this.#now();
    if (this.#file !== null && !this.#isGiven && now - this.#lookedAt >= LOOK_MS) {
      this.#lookedAt = now;
      this.#isGiven = existsSync(this.#file);
    }
    return this.#isGiven;
  }

  /** Call when a checkpoint is taken, also because another rank has an order. */
  taken(): void {
    if (this.#file !== null && this.isGiven) {
      rmSync(this.#file, { force: true });
    }
    this.#isGiven = false;
  }
}
