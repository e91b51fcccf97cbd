export const PHASES = ['input', 'compute', 'exchange', 'update', 'checkpoint', 'validation', 'other'] as const;

/**
 * A phase of a step:
 *
 * - input: waiting for data and converting the data to tensors
 * - compute: forward and backward pass
 * - exchange: communicating with other workers or parameter servers, and waiting for them
 * - update: running the optimizer
 * - checkpoint: copying the weights
 * - validation: evaluating the validation data
 * - other: callbacks, logs, summaries
 */
export type Phase = (typeof PHASES)[number];

export type PhaseTimes = Readonly<Record<Phase, number>>;

/**
 * A stopwatch for the phases of a step. Exactly one phase is active at any time. GPUs compute asynchronously, so the time spent waiting
 * for a result counts towards the phase that reads it. Strategies must therefore read the gradients before they enter `exchange`.
 */
export class StepClock {
  readonly #now: () => number;
  readonly #times: Record<Phase, number> = { input: 0, compute: 0, exchange: 0, update: 0, checkpoint: 0, validation: 0, other: 0 };
  #phase: Phase = 'other';
  #since: number;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
    this.#since = now();
  }

  /** Enters `phase`. @returns the previous phase. */
  enter(phase: Phase): Phase {
    const now = this.#now();
    const left = this.#phase;
    this.#times[left] += now - this.#since;
    this.#since = now;
    this.#phase = phase;
    return left;
  }

  /** Returns the total time in each phase, in ms. */
  read(): PhaseTimes {
    this.enter(this.#phase);
    return { ...this.#times };
  }
}
