export const PHASES = ['input', 'compute', 'exchange', 'update', 'checkpoint', 'validation', 'other'] as const;

/**
 * - input: waiting for data and converting it to tensors
 * - compute: forward and backward pass
 * - exchange: communication with other workers or parameter servers, including waiting for them
 * - update: the optimizer
 * - checkpoint: copying the weights
 * - validation
 * - other: callbacks, logs, summaries
 */
export type Phase = (typeof PHASES)[number];

export type PhaseTimes = Readonly<Record<Phase, number>>;

/**
 * A stopwatch that measures the time in each phase; exactly one phase is active. GPUs compute asynchronously, so the clock attributes the
 * waiting time to the phase that reads the result. Strategies must therefore read the gradients before they enter `exchange`.
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

  /** Switches to `phase`. @returns the previous phase. */
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
