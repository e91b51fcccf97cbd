/**
 * Whether a worker may begin its next step: Stale Synchronous Parallel (Ho et al., "More Effective Distributed ML via a Stale Synchronous
 * Parallel Parameter Server", 2013). With staleness s a worker begins step t (from 0) only when every other one has finished step t - s - 1;
 * so it computes on weights that hold all updates of the steps up to that one. s = 0: all compute each step on equal weights.
 *
 *   awaited    not there yet; nobody begins before all are there, so that all begin with the same weights
 *   live       counted
 *   lost       its connection has ended; counted until somebody gives it up
 *   given-up   not counted, until it comes back
 *   finished   has no more steps to take; not counted
 */
export type WorkerState = 'awaited' | 'live' | 'lost' | 'given-up' | 'finished';

export class StalenessClock {
  /** null: any worker may always go on (asynchronous). */
  readonly #staleness: number | null;
  readonly #workers: { state: WorkerState; steps: number }[];

  constructor(workers: number, staleness: number | null) {
    this.#staleness = staleness;
    this.#workers = Array.from({ length: workers }, () => ({ state: 'awaited', steps: 0 }));
  }

  stateOf(rank: number): WorkerState {
    return this.#worker(rank).state;
  }

  /** Steps that this worker has finished. */
  stepsOf(rank: number): number {
    return this.#worker(rank).steps;
  }

  /** It is there, for the first time or again. */
  join(rank: number): void {
    const worker = this.#worker(rank);
    if (worker.state === 'given-up') {
      // Those who have gone on without it need not wait until it has caught up.
      worker.steps = Math.max(worker.steps, this.#slowest() ?? worker.steps);
    }
    worker.state = 'live';
  }

  finishStep(rank: number): void {
    this.#worker(rank).steps++;
  }

  /** It has no more steps to take. */
  finish(rank: number): void {
    this.#worker(rank).state = 'finished';
  }

  lose(rank: number): void {
    const worker = this.#worker(rank);
    if (worker.state === 'live') {
      worker.state = 'lost';
    }
  }

  /** Goes on without those of them that are still not there. */
  giveUp(rank: number): void {
    const worker = this.#worker(rank);
    if (worker.state === 'lost' || worker.state === 'awaited') {
      worker.state = 'given-up';
    }
  }

  mayBegin(rank: number): boolean {
    const slowest = this.#slowest();
    if (this.#staleness === null || slowest === null) {
      return true;
    }
    return this.#worker(rank).steps <= slowest + this.#staleness && this.#workers.every(({ state }) => state !== 'awaited');
  }

  /** Nobody has a step left to take: each has finished, or has been given up. */
  get over(): boolean {
    return this.#workers.every(({ state }) => state === 'finished' || state === 'given-up');
  }

  #slowest(): number | null {
    const counted = this.#workers.filter(({ state }) => state !== 'finished' && state !== 'given-up');
    return counted.length === 0 ? null : Math.min(...counted.map(({ steps }) => steps));
  }

  #worker(rank: number): { state: WorkerState; steps: number } {
    const worker = this.#workers[rank];
    if (worker === undefined) {
      throw new RangeError(`there is no worker of rank ${rank}`);
    }
    return worker;
  }
}
