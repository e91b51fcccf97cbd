import type { DelayedRequests } from './delayed-requests.ts';
import type { RunClock } from './run-clock.ts';
import type { WorkerRequest } from './worker-request.ts';

/**
 * Ends a run in two steps. First, all workers finish their steps. Then, the chief stores the last checkpoint and seals the run, while the
 * other workers wait.
 */
export class RunEnd {
  readonly #clock: RunClock;
  readonly #delayed: DelayedRequests;
  #closing = false;
  #sealed: { readonly failed: boolean } | null = null;

  constructor(clock: RunClock, delayed: DelayedRequests) {
    this.#clock = clock;
    this.#delayed = delayed;
  }

  /** True once all workers have finished. The weights must then stay unchanged until the chief has stored the last checkpoint. */
  get closing(): boolean {
    return this.#closing;
  }

  get sealed(): boolean {
    return this.#sealed !== null;
  }

  /** Marks the worker as finished. The worker receives the answer once all workers have finished. */
  finish(request: WorkerRequest): void {
    this.#clock.finish(request.rank);
    this.#delayed.release();
    this.#delayed.when(
      request,
      () => this.#clock.over,
      () => {
        this.#closing = true;
        request.answer({});
      },
    );
  }

  /** Ends the run for all workers. @param failed true if the chief could not store the last checkpoint. */
  seal(request: WorkerRequest, failed: boolean): void {
    this.#sealed = { failed };
    request.answer({});
    this.#delayed.release();
  }

  awaitSeal(request: WorkerRequest): void {
    this.#delayed.when(
      request,
      () => this.sealed,
      () => request.answer({ failed: this.#sealed?.failed ?? false }),
    );
  }
}
