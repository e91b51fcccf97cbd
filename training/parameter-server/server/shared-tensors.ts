import { TonyError } from '../../../platform/errors.ts';
import type { AskOf, StoredShape } from '../protocol/messages.ts';
import type { DelayedRequests } from './delayed-requests.ts';
import type { WorkerRequest } from './worker-request.ts';

const MAX_NAMES = 256;

/** The tensors that workers have stored for all workers of a run, by name. */
export class SharedTensors {
  readonly #delayed: DelayedRequests;
  readonly #stored = new Map<string, { readonly tensors: readonly StoredShape[]; readonly body: Uint8Array }>();

  constructor(delayed: DelayedRequests) {
    this.#delayed = delayed;
  }

  put(request: WorkerRequest, { name, tensors }: AskOf<'put'>, body: Uint8Array): void {
    if (this.#stored.size >= MAX_NAMES && !this.#stored.has(name)) {
      throw new TonyError(
        'RING_MISMATCH',
        `the program makes more than ${MAX_NAMES} broadcasts, which is the maximum with parameter servers`,
      );
    }
    this.#stored.set(name, { tensors, body });
    request.answer({});
    this.#delayed.release();
  }

  get(request: WorkerRequest, { name }: AskOf<'get'>): void {
    this.#delayed.when(
      request,
      () => this.#stored.has(name),
      () => {
        const { tensors = [], body = new Uint8Array(0) } = this.#stored.get(name) ?? {};
        request.answer({ tensors }, [body]);
      },
    );
  }

  clear(): void {
    this.#stored.clear();
  }
}
