/**
 * Decides whether a worker may begin its next step, according to Stale Synchronous Parallel (Ho et al., "More Effective Distributed ML via
 * a Stale Synchronous Parallel Parameter Server", 2013). With staleness s, a worker begins step t (from 0) only after every other worker
 * has finished step t - s - 1, so it computes on weights that include all updates up to that step. With s = 0, all workers compute each
 * step on equal weights.
 *
 *   awaited    has not joined yet; no worker begins a step while another worker is awaited, so that all begin with the same weights
 *   live       has joined; counted
 *   lost       its connection has ended; still counted until `giveUp`
 *   given-up   not counted until it joins again
 *   finished   has no more steps to take; not counted
 */
export type WorkerState = 'awaited' | 'live' | 'lost' | 'given-up' | 'finished';

export class StalenessClock {
  /** The maximum number of steps that a worker may be ahead of the slowest worker; null for asynchronous training, without a limit. */
  staleness: number | null;
  readonly #workers: { state: WorkerState; steps: number }[];

  constructor(workers: number, staleness: number | null) {
    this.staleness = staleness;
    this.#workers = Array.from({ length: workers }, () => ({ state: 'awaited', steps: 0 }));
  }

  stateOf(rank: number): WorkerState {
    return this.#worker(rank).state;
  }

  /** The number of steps that this worker has finished. */
  stepsOf(rank: number): number {
    return this.#worker(rank).steps;
  }

  /** Marks the worker as live. Call when the worker joins for the first time or again. */
  join(rank: number): void {
    const worker = this.#worker(rank);
    if (worker.state === 'given-up') {
      // The other workers have continued without this worker. They must not wait until it has caught up.
      worker.steps = Math.max(worker.steps, this.#slowest() ?? worker.steps);
    }
    worker.state = 'live';
  }

  finishStep(rank: number): void {
    this.#worker(rank).steps++;
  }

  /** Marks the worker as finished. */
  finish(rank: number): void {
    this.#worker(rank).state = 'finished';
  }

  lose(rank: number): void {
    const worker = this.#worker(rank);
    if (worker.state === 'live') {
      worker.state = 'lost';
    }
  }

  /** Stops counting the worker if it is still lost or awaited. */
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

  /** True if every worker has finished or is given up. */
  get over(): boolean {
    return !this.#workers.some(isCounted);
  }

  /** Returns the ranks that are counted, because they may still pull or push. */
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
