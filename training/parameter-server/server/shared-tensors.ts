import { TonyError } from '../../../platform/errors.ts';
import type { ServerAskOf, SharedKey, StoredShape } from '../protocol/messages.ts';
import type { DelayedRequests } from './delayed-requests.ts';
import type { WorkerRequest } from './worker-request.ts';

/** The number of broadcasts to keep. A worker's replacement replays earlier broadcasts and needs their values. */
const KEPT_BROADCASTS = 256;

/** Tensors that one worker stores for all workers in a run. */
export class SharedTensors {
  readonly #delayed: DelayedRequests;
  readonly #ranks: () => readonly number[];
  readonly #stored = new Map<SharedKey, { readonly tensors: readonly StoredShape[]; readonly body: Uint8Array }>();
  /** The number of broadcasts that each rank has stored or read. */
  readonly #seen = new Map<number, number>();
  /** The number of broadcasts that have been removed, oldest first. */
  #removed = 0;

  /** @param ranks returns the ranks that have not left the run deliberately. */
  constructor(delayed: DelayedRequests, ranks: () => readonly number[]) {
    this.#delayed = delayed;
    this.#ranks = ranks;
  }

  /** Stores the tensors. Before a new broadcast removes an old one, all ranks must have read the old one. */
  put(request: WorkerRequest, { key, tensors }: ServerAskOf<'put'>, body: Uint8Array): void {
    this.#see(request, key);
    const removable = typeof key === 'number' ? key + 1 - KEPT_BROADCASTS : 0;
    const isDue = () => this.#ranks().every((rank) => (this.#seen.get(rank) ?? 0) >= removable);
    this.#delayed.when(request, isDue, () => {
      for (; this.#removed < removable; this.#removed++) {
        this.#stored.delete(this.#removed);
      }
      if (!this.#isRemoved(key)) {
        this.#stored.set(key, { tensors, body });
      }
      request.answer({});
      this.#delayed.release();
    });
  }

  /** @throws TonyError RING_MISMATCH if the broadcast has been removed. */
  get(request: WorkerRequest, { key }: ServerAskOf<'get'>): void {
    if (this.#isRemoved(key)) {
      throw new TonyError(
        'RING_MISMATCH',
        `a replacement worker must replay broadcast ${key}, but the servers no longer hold the broadcast`,
      );
    }
    this.#delayed.when(
      request,
      () => this.#stored.has(key),
      () => {
        const { tensors = [], body = new Uint8Array(0) } = this.#stored.get(key) ?? {};
        request.answer({ tensors }, [body]);
        this.#see(request, key);
        this.#delayed.release();
      },
    );
  }

  #isRemoved(key: SharedKey): boolean {
    return typeof key === 'number' && key < this.#removed;
  }

  #see({ rank }: WorkerRequest, key: SharedKey): void {
    if (typeof key === 'number') {
      this.#seen.set(rank, Math.max(this.#seen.get(rank) ?? 0, key + 1));
    }
  }

  clear(): void {
    this.#stored.clear();
  }
}
