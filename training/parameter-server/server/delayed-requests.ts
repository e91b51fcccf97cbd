import type { Client, WorkerRequest } from './worker-request.ts';

interface Delayed {
  readonly request: WorkerRequest;
  readonly isDue: () => boolean;
  readonly answer: () => void;
  /** True if the answer depends on other workers' steps. The worker cannot push until it receives the answer. */
  readonly inStep: boolean;
}

/** The requests of one run that the server cannot answer yet. If `answer` throws, the server refuses the request with that error. */
export class DelayedRequests {
  #delayed: Delayed[] = [];

  /** Answers the request immediately if `isDue` returns true, otherwise on the first call to `release` for which `isDue` returns true. */
  when(request: WorkerRequest, isDue: () => boolean, answer: () => void, inStep = false): void {
    const delayed = { request, isDue, answer, inStep };
    if (isDue()) {
      settle(delayed);
    } else {
      this.#delayed.push(delayed);
    }
  }

  release(): void {
    const due = this.#delayed.filter(({ isDue }) => isDue());
    if (due.length > 0) {
      this.#delayed = this.#delayed.filter((each) => !due.includes(each));
      due.forEach(settle);
    }
  }

  /** Treats the request as delayed until `work` settles. */
  async during<T>(request: WorkerRequest, work: Promise<T>): Promise<T> {
    const delayed: Delayed = { request, isDue: () => false, answer: () => {}, inStep: false };
    this.#delayed.push(delayed);
    try {
      return await work;
    } finally {
      this.#delayed = this.#delayed.filter((each) => each !== delayed);
    }
  }

  /** Tells workers that their answers are delayed, so that the workers do not consider the server lost. */
  hold(): void {
    for (const { request } of this.#delayed) {
      request.hold();
    }
  }

  isInStep(rank: number): boolean {
    return this.#delayed.some(({ request, inStep }) => inStep && request.rank === rank);
  }

  drop(client: Client | undefined): void {
    this.#delayed = this.#delayed.filter(({ request }) => request.client !== client);
  }

  clear(): void {
    this.#delayed = [];
  }
}

function settle({ request, answer }: Delayed): void {
  try {
    answer();
  } catch (error) {
    request.refuse(error);
  }
}
