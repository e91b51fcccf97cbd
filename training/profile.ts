import { PHASES, type Phase, type PhaseTimes, StepClock } from './profile-clock.ts';

/** Phases that most steps do not have. */
const RARE: readonly Phase[] = ['checkpoint', 'validation'];

/** Where the time of a run's steps goes, on this rank, and which rank is the slowest. */
export class StepProfile {
  readonly clock: StepClock;
  #steps = 0;
  /** Of each rank, ms that it spent on its own, since the beginning; empty in a world of one. */
  readonly #busy: number[] = [];
  #ownBusy = 0;

  constructor(clock = new StepClock()) {
    this.clock = clock;
  }

  /** A step of this rank is over. */
  stepTaken(): void {
    this.#steps++;
  }

  /** ms that this rank has spent on its own since this was last asked: without exchange, where it waits for others, and without validation. */
  busySinceLast(): number {
    const { exchange, validation, ...own } = this.clock.read();
    const busy = Object.values(own).reduce((sum, ms) => sum + ms, 0);
    const since = busy - this.#ownBusy;
    this.#ownBusy = busy;
    return since;
  }

  /** @param busy what each rank has spent on a step of its own, ms. */
  ranksWereBusy(busy: Float32Array): void {
    busy.forEach((ms, rank) => {
      this.#busy[rank] = (this.#busy[rank] ?? 0) + ms;
    });
  }

  /** Begins to count. */
  window(): ProfileWindow {
    return new ProfileWindow(() => ({ times: this.clock.read(), steps: this.#steps, busy: [...this.#busy] }));
  }
}

interface Reading {
  readonly times: PhaseTimes;
  readonly steps: number;
  readonly busy: readonly number[];
}

/** What has happened between two looks at a profile. */
export class ProfileWindow {
  readonly #read: () => Reading;
  #last: Reading;

  constructor(read: () => Reading) {
    this.#read = read;
    this.#last = read();
  }

  /**
   * Since the last call, as means over the steps: `profile/input ms`, `profile/compute ms`, ..., `profile/step ms`, and among several ranks which
   * one was busy longest, `profile/slowest rank`, and how long, `profile/slowest rank ms`. Empty without steps.
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

/** Microseconds are below what can be told apart. */
function rounded(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}
