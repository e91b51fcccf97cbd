import { TonyError } from '../../../platform/errors.ts';
import type { AskOf, StoredShape } from '../protocol/messages.ts';
import type { DelayedRequests } from './delayed-requests.ts';
import type { WorkerRequest } from './worker-request.ts';

const MAX_NAMES = 256;

/** Tensors that a worker has stored for all workers, by name. */
export class Mail {
  readonly #delayed: DelayedRequests;
  readonly #letters = new Map<string, { readonly tensors: readonly StoredShape[]; readonly body: Uint8Array }>();

  constructor(delayed: DelayedRequests) {
    this.#delayed = delayed;
  }

  put(request: WorkerRequest, { name, tensors }: AskOf<'put'>, body: Uint8Array): void {
    if (this.#letters.size >= MAX_NAMES && !this.#letters.has(name)) {
      throw new TonyError('RING_MISMATCH', `a parameter server keeps at most ${MAX_NAMES} broadcasts`);
    }
    this.#letters.set(name, { tensors, body });
    request.answer({});
    this.#delayed.release();
  }

  /** Answers once the tensors are stored. */
  get(request: WorkerRequest, { name }: AskOf<'get'>): void {
    this.#delayed.when(
      request,
      () => this.#letters.has(name),
      () => {
        const { tensors = [], body = new Uint8Array(0) } = this.#letters.get(name) ?? {};
        request.answer({ tensors }, [body]);
      },
    );
  }

  clear(): void {
    this.#letters.clear();
  }
}
