/**
 * Measures the time since the last checkpoint, for jobs that write checkpoints by time. Only rank 0 measures: it asks for the checkpoint with
 * a signal that the ranks exchange in their next step, so all ranks write the checkpoint after the same step.
 */
export class CheckpointTimer {
  readonly #everyMs: number;
  readonly #now: () => number;
  #since: number;

  /** @param everyMs the time between checkpoints in ms, or null on a rank that does not ask for checkpoints. */
  constructor(everyMs: number | null, now: () => number = () => performance.now()) {
    this.#everyMs = everyMs ?? Number.POSITIVE_INFINITY;
    this.#now = now;
    this.#since = now();
  }

  get isDue(): boolean {
    return this.#now() - this.#since >= this.#everyMs;
  }

  /** Must be called with every checkpoint, even if it was due for another reason. */
  restart(): void {
    this.#since = this.#now();
  }
}
