export const STEP_ACTIVITIES = ['input', 'compute', 'exchange', 'update', 'checkpoint', 'validation', 'other'] as const;

/**
 * What a rank spends a step's time on:
 *
 * - input: waiting for data and converting the data to tensors
 * - compute: forward and backward pass
 * - exchange: communicating with other workers or parameter servers, and waiting for them
 * - update: running the optimizer
 * - checkpoint: copying the weights
 * - validation: evaluating the validation data
 * - other: callbacks, logs, summaries
 */
export type StepActivity = (typeof STEP_ACTIVITIES)[number];

export type ActivityTimes = Readonly<Record<StepActivity, number>>;

/**
 * A stopwatch for the activities of a step. Exactly one activity is current at any time. GPUs compute asynchronously, so the time spent waiting
 * for a result counts towards the activity that reads it. Strategies must therefore read the gradients before they enter `exchange`.
 */
export class StepClock {
  readonly #now: () => number;
  readonly #times: Record<StepActivity, number> = { input: 0, compute: 0, exchange: 0, update: 0, checkpoint: 0, validation: 0, other: 0 };
  #activity: StepActivity = 'other';
  #since: number;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
    this.#since = now();
  }

  /** Begins `activity`. @returns the previous activity. */
  enter(activity: StepActivity): StepActivity {
    const now = this.#now();
    const left = this.#activity;
    this.#times[left] += now - this.#since;
    this.#since = now;
    this.#activity = activity;
    return left;
  }

  /** Returns the total time of each activity, in ms. */
  read(): ActivityTimes {
    this.enter(this.#activity);
    return { ...this.#times };
  }
}
