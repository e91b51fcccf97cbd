import { type ActivityTimes, STEP_ACTIVITIES, type StepActivity, StepClock } from './profile-clock.ts';

/** Activities omitted from the metrics if no time was spent on them. */
const RARE: readonly StepActivity[] = ['checkpoint', 'validation'];

/** Measures the time that this rank's steps spend on each activity, and determines the slowest rank. */
export class StepProfile {
  readonly clock: StepClock;
  #steps = 0;
  /** Each rank's total busy time in ms, excluding the time that it spends waiting for other ranks. Empty if there is only one rank. */
  readonly #busy: number[] = [];
  #ownBusy = 0;

  constructor(clock = new StepClock()) {
    this.clock = clock;
  }

  stepTaken(): void {
    this.#steps++;
  }

  /** Returns this rank's busy time in ms since the last call: the time spent on all activities except `validation` and `exchange`. */
  busySinceLast(): number {
    const { exchange, validation, ...own } = this.clock.read();
    const busy = Object.values(own).reduce((sum, ms) => sum + ms, 0);
    const elapsed = busy - this.#ownBusy;
    this.#ownBusy = busy;
    return elapsed;
  }

  addBusyTimes(busy: Float32Array): void {
    busy.forEach((ms, rank) => {
      this.#busy[rank] = (this.#busy[rank] ?? 0) + ms;
    });
  }

  window(): ProfileWindow {
    return new ProfileWindow(() => ({ times: this.clock.read(), steps: this.#steps, busy: [...this.#busy] }));
  }
}

interface Reading {
  readonly times: ActivityTimes;
  readonly steps: number;
  readonly busy: readonly number[];
}

export class ProfileWindow {
  readonly #read: () => Reading;
  #last: Reading;

  constructor(read: () => Reading) {
    this.#read = read;
    this.#last = read();
  }

  /**
   * Returns the mean times per step since the last call: `profile/input_ms`, `profile/compute_ms`, ..., `profile/step_ms`. If there are
   * several ranks, also returns the rank with the longest busy time (`profile/slowest_rank`) and that time (`profile/slowest_rank_ms`).
   * Returns an empty record if no step was taken.
   */
  take(): Record<string, number> {
    const [last, now] = [this.#last, this.#read()];
    const steps = now.steps - last.steps;
    if (steps === 0) {
      return {};
    }
    this.#last = now;
    const metrics: Record<string, number> = {};
    let total = 0;
    for (const activity of STEP_ACTIVITIES) {
      const ms = (now.times[activity] - last.times[activity]) / steps;
      total += ms;
      if (ms > 0 || !RARE.includes(activity)) {
        metrics[`profile/${activity}_ms`] = rounded(ms);
      }
    }
    metrics['profile/step_ms'] = rounded(total);
    const busy = now.busy.map((ms, rank) => (ms - (last.busy[rank] ?? 0)) / steps);
    if (busy.length > 1) {
      const slowest = Math.max(...busy);
      metrics['profile/slowest_rank'] = busy.indexOf(slowest);
      metrics['profile/slowest_rank_ms'] = rounded(slowest);
    }
    return metrics;
  }
}

function rounded(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}
