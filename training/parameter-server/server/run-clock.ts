import { rankName } from '../../../contract/connections/rank-name.ts';

/**
 * Decides whether a worker may begin its next step. Implements Stale Synchronous Parallel (Ho et al., "More Effective Distributed ML via a
 * Stale Synchronous Parallel Parameter Server", 2013). With staleness s, a worker begins step t (from 0) only after every other worker has
 * finished step t - s - 1. The worker's weights then include all updates up to that step. With s = 0, all workers compute each step with
 * the same weights.
 *
 * A worker waits for the slowest of the workers that are awaited, live or lost. A worker is always in one of these states:
 *
 *   awaited    has not joined yet; until it joins, no worker begins a step, so all workers begin with the same weights
 *   live       has joined
 *   lost       has lost its connection; other workers wait for it until `giveUp`
 *   given-up   other workers do not wait for it until it joins again
 *   finished   has no more steps to take
 */
type WorkerState = 'awaited' | 'live' | 'lost' | 'given-up' | 'finished';

export class StalenessClock {
  /** How many steps a worker may be ahead of the slowest worker, or null for no limit (asynchronous training). */
  staleness: number | null;
  readonly #workers: { state: WorkerState; steps: number }[];

  constructor(workers: number, staleness: number | null) {
    this.staleness = staleness;
    this.#workers = Array.from({ length: workers }, () => ({ state: 'awaited', steps: 0 }));
  }

  stateOf(rank: number): WorkerState {
    return this.#worker(rank).state;
  }

  stepsOf(rank: number): number {
    return this.#worker(rank).steps;
  }

  join(rank: number): void {
    const worker = this.#worker(rank);
    if (worker.state === 'given-up') {
      // The other workers have continued without this worker, so they must not wait for it to catch up.
      worker.steps = Math.max(worker.steps, this.#slowest() ?? worker.steps);
    }
    worker.state = 'live';
  }

  finishStep(rank: number): void {
    this.#worker(rank).steps++;
  }

  finish(rank: number): void {
    this.#worker(rank).state = 'finished';
  }

  lose(rank: number): void {
    const worker = this.#worker(rank);
    if (worker.state === 'live') {
      worker.state = 'lost';
    }
  }

  /** Stops waiting for the worker if it is lost or awaited. */
  giveUp(rank: number): void {
    const worker = this.#worker(rank);
    if (worker.state === 'lost' || worker.state === 'awaited') {
      worker.state = 'given-up';
    }
  }

  mayBegin(rank: number): boolean {
    const slowest = this.#slowest();
    if (this.staleness === null || slowest === null) {
      return true;
    }
    return this.#worker(rank).steps <= slowest + this.staleness && this.#workers.every(({ state }) => state !== 'awaited');
  }

  get over(): boolean {
    return !this.#workers.some(isCounted);
  }

  /** Returns the ranks that may still pull or push. */
  counted(): number[] {
    return [...this.#workers.keys()].filter((rank) => isCounted(this.#worker(rank)));
  }

  #slowest(): number | null {
    const counted = this.#workers.filter(isCounted);
    return counted.length === 0 ? null : Math.min(...counted.map(({ steps }) => steps));
  }

  #worker(rank: number): { state: WorkerState; steps: number } {
    const worker = this.#workers[rank];
    if (worker === undefined) {
      throw new RangeError(`the run has no worker with rank ${rank}`);
    }
    return worker;
  }
}

function isCounted({ state }: { readonly state: WorkerState }): boolean {
  return state !== 'finished' && state !== 'given-up';
}

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
