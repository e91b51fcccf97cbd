import { rankName } from '../../connections/rank-name.ts';
import { StalenessClock } from './staleness-clock.ts';

export interface RunClockOptions {
  readonly worldSize: number;
  /** The names of the workers in messages, by rank. */
  readonly names: readonly string[];
  readonly onNotice: (message: string) => void;
  /** Called after the clock has given up on a worker. Other workers may then be able to continue. */
  readonly onGivenUp: () => void;
}

/** One run's staleness clock. Gives up on workers that are absent for longer than a time limit. */
export class RunClock extends StalenessClock {
  readonly #options: RunClockOptions;
  readonly #timers = new Map<number, NodeJS.Timeout>();

  constructor(options: RunClockOptions) {
    super(options.worldSize, null);
    this.#options = options;
  }

  override join(rank: number): void {
    clearTimeout(this.#timers.get(rank));
    this.#timers.delete(rank);
    super.join(rank);
  }

  giveUpIn(rank: number, ms: number): void {
    clearTimeout(this.#timers.get(rank));
    const timer = setTimeout(() => {
      this.#timers.delete(rank);
      const state = this.stateOf(rank);
      if (state === 'lost' || state === 'awaited') {
        const { names, onNotice } = this.#options;
        onNotice(`${rankName(rank, names)} has not been connected for ${ms / 1000} s; the other workers continue without it`);
        this.giveUp(rank);
        this.#options.onGivenUp();
      }
    }, ms);
    this.#timers.set(rank, timer);
  }

  dispose(): void {
    for (const timer of this.#timers.values()) {
      clearTimeout(timer);
    }
    this.#timers.clear();
  }
}
