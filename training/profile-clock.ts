/** What a step's time goes into. */
export const PHASES = ['input', 'compute', 'exchange', 'update', 'checkpoint', 'validation', 'other'] as const;

/**
 * input: waiting for the data, and making tensors of it before the model sees them. compute: forward and backward. exchange: with the other
 * workers or the servers, waiting for them included. update: the optimizer. checkpoint: copying the weights for one. other: callbacks, logs, summaries.
 */
export type Phase = (typeof PHASES)[number];

export type PhaseTimes = Readonly<Record<Phase, number>>;

/**
 * A stopwatch that runs in one phase at a time. Backends that compute later than they are told (GPUs) are waited for where somebody needs a
 * number, and that wait counts where it happens: strategies enter `exchange` only when the gradients have left the backend.
 */
export class StepClock {
  readonly #now: () => number;
  readonly #times: Record<Phase, number> = { input: 0, compute: 0, exchange: 0, update: 0, checkpoint: 0, validation: 0, other: 0 };
  #phase: Phase = 'other';
  #since: number;

  /** @param now ms. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
    this.#since = now();
  }

  /** @returns the phase that was left, for whoever wants to go back to it. */
  enter(phase: Phase): Phase {
    const now = this.#now();
    const left = this.#phase;
    this.#times[left] += now - this.#since;
    this.#since = now;
    this.#phase = phase;
    return left;
  }

  /** ms in each phase since the clock was made, up to now. */
  read(): PhaseTimes {
    this.enter(this.#phase);
    return { ...this.#times };
  }
}
