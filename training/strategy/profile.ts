import { PHASES, type Phase, type PhaseTimes, StepClock } from './profile-clock.ts';

/** Phases that few steps enter. The metrics omit them if their time is 0. */
const RARE: readonly Phase[] = ['checkpoint', 'validation'];

/** Measures how much time this rank's steps spend in each phase, and which rank is the slowest. */
export class StepProfile {
  readonly clock: StepClock;
  #steps = 0;
  /** The total busy time of each rank, in ms, which excludes waiting for other ranks; empty in a world of one rank. */
  readonly #busy: number[] = [];
  #ownBusy = 0;

  constructor(clock = new StepClock()) {
    this.clock = clock;
  }

  /** Counts a completed step of this rank. */
  stepTaken(): void {
    this.#steps++;
  }

  /**
   * This rank's busy time since the last call, in ms: the time of all phases except `validation` and `exchange`, which includes waiting for
   * other ranks.
   */
  busySinceLast(): number {
    const { exchange, validation, ...own } = this.clock.read();
    const busy = Object.values(own).reduce((sum, ms) => sum + ms, 0);
    const elapsed = busy - this.#ownBusy;
    this.#ownBusy = busy;
    return elapsed;
  }

  /** Records the busy time of each rank in one step, in ms. */
  addBusyTimes(busy: Float32Array): void {
    busy.forEach((ms, rank) => {
      this.#busy[rank] = (this.#busy[rank] ?? 0) + ms;
    });
  }

  /** Opens a window whose first report begins now. */
  window(): ProfileWindow {
    return new ProfileWindow(() => ({ times: this.clock.read(), steps: this.#steps, busy: [...this.#busy] }));
  }
}

interface Reading {
  readonly times: PhaseTimes;
  readonly steps: number;
  readonly busy: readonly number[];
}

/** Reports the time between two readings of a profile. */
export class ProfileWindow {
  readonly #read: () => Reading;
  #last: Reading;

  constructor(read: () => Reading) {
    this.#read = read;
    this.#last = read();
  }

  /**
   * Returns the mean times per step since the last call: `profile/input ms`, `profile/compute ms`, ..., `profile/step ms`. With several
   * ranks, `profile/slowest rank` is the rank with the longest busy time, and `profile/slowest rank ms` is that time. Empty if no step was
   * taken.
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
    for (const phase of PHASES) {
      const ms = (now.times[phase] - last.times[phase]) / steps;
      total += ms;
      if (ms > 0 || !RARE.includes(phase)) {
        metrics[`profile/${phase} ms`] = rounded(ms);
      }
    }
    metrics['profile/step ms'] = rounded(total);
    const busy = now.busy.map((ms, rank) => (ms - (last.busy[rank] ?? 0)) / steps);
    if (busy.length > 1) {
      const slowest = Math.max(...busy);
      metrics['profile/slowest rank'] = busy.indexOf(slowest);
      metrics['profile/slowest rank ms'] = rounded(slowest);
    }
    return metrics;
  }
}

/** Rounds to microseconds, because smaller differences are noise. */
function rounded(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}
