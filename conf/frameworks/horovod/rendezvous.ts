import { anySignal } from '../../../platform/async/any-signal.ts';
import { pause } from '../../../platform/async/backoff.ts';
import { TonyError } from '../../../platform/errors.ts';
import type { MasterRequest, MasterService } from '../framework.ts';
import { LARGEST_RENDEZVOUS_KEY, LARGEST_RENDEZVOUS_VALUE, RENDEZVOUS_GET, RENDEZVOUS_PUT, RENDEZVOUS_REMOVE } from './service-names.ts';

/** Maximum total size of all keys and values in bytes. Horovod stores about 100 bytes for each pair of processes. */
const LARGEST_TOTAL = 64 * 1024 * 1024;
/** Estimated memory overhead of an entry in bytes, in addition to its key and value. */
const ENTRY_BYTES = 200;
/** Maximum time in ms to delay the response to a request for a missing key. */
const HOLD_MS = 2_000;

export type RendezvousCall = Pick<MasterRequest, 'generation' | 'signal'>;

/** A missing key, and the number of requests that are waiting for it. */
interface Awaited {
  /** Aborted when the key arrives. */
  readonly arrival: AbortController;
  requests: number;
}

/**
 * The key-value store in which the gang's processes publish their addresses (`horovod` framework). The store keeps the keys of one
 * generation in memory. If the ApplicationMaster fails, the executors send their entries to the next attempt.
 */
export class Rendezvous implements MasterService {
  readonly #mostBytes: number;
  #generation = 0;
  #bytes = 0;
  readonly #values = new Map<string, Buffer>();
  readonly #awaited = new Map<string, Awaited>();

  constructor(mostBytes: number = LARGEST_TOTAL) {
    this.#mostBytes = mostBytes;
  }

  /** @throws TonyError DATA_INVALID, RENDEZVOUS_FULL, SERVICE_LOST */
  async serve(request: MasterRequest) {
    switch (request.service) {
      case RENDEZVOUS_PUT:
        this.put(request, request.body);
        return { answer: 'stored' };
      case RENDEZVOUS_GET: {
        const value = await this.get(request, request.body);
        return value === null ? { answer: 'missing' } : { answer: 'found', body: value };
      }
      case RENDEZVOUS_REMOVE:
        this.remove(request, request.body);
        return { answer: 'removed' };
      default:
        return null;
    }
  }

  /** @throws TonyError DATA_INVALID, RENDEZVOUS_FULL, SERVICE_LOST */
  put({ generation }: RendezvousCall, body: unknown): void {
    this.#enter(generation);
    const key = keyOf(body);
    const value = Buffer.from(String((body as { value?: unknown }).value ?? ''), 'base64');
    const added = sizeOf(key, value) - this.#sizeAt(key);
    if (value.length > LARGEST_RENDEZVOUS_VALUE || this.#bytes + added > this.#mostBytes) {
      throw new TonyError(
        'RENDEZVOUS_FULL',
        `the rendezvous store cannot hold ${value.length} more bytes: it holds ${this.#bytes} bytes in ${this.#values.size} entries`,
      );
    }
    this.#bytes += added;
    this.#values.set(key, value);
    this.#awaited.get(key)?.arrival.abort();
    this.#awaited.delete(key);
  }

  /**
   * Returns the value, or null if the key is missing. With `wait`, waits a few seconds for a missing key.
   * @throws TonyError DATA_INVALID, SERVICE_LOST
   */
  async get({ generation, signal }: RendezvousCall, body: unknown): Promise<Buffer | null> {
    this.#enter(generation);
    const key = keyOf(body);
    if (!this.#values.has(key) && (body as { wait?: unknown }).wait === true) {
      await this.#wait(key, signal);
      this.#enter(generation);
    }
    return this.#values.get(key) ?? null;
  }

  /** @throws TonyError DATA_INVALID, SERVICE_LOST */
  remove({ generation }: RendezvousCall, body: unknown): void {
    this.#enter(generation);
    const key = keyOf(body);
    this.#bytes -= this.#sizeAt(key);
    this.#values.delete(key);
  }

  async #wait(key: string, signal: AbortSignal): Promise<void> {
    const awaited = this.#awaited.get(key) ?? { arrival: new AbortController(), requests: 0 };
    this.#awaited.set(key, awaited);
    awaited.requests += 1;
    await pause(HOLD_MS, anySignal([signal, awaited.arrival.signal]));
    awaited.requests -= 1;
    if (awaited.requests === 0 && this.#awaited.get(key) === awaited) {
      this.#awaited.delete(key);
    }
  }

  /** Drops the keys from earlier generations. */
  #enter(generation: number): void {
    if (generation < this.#generation) {
      throw new TonyError('SERVICE_LOST', `generation ${generation} has ended: generation ${this.#generation} has started`);
    }
    if (generation > this.#generation) {
      this.#generation = generation;
      this.close();
    }
  }

  close(): void {
    this.#values.clear();
    this.#bytes = 0;
    for (const { arrival } of this.#awaited.values()) {
      arrival.abort();
    }
    this.#awaited.clear();
  }

  #sizeAt(key: string): number {
    const value = this.#values.get(key);
    return value === undefined ? 0 : sizeOf(key, value);
  }
}

function sizeOf(key: string, value: Buffer): number {
  return key.length + value.length + ENTRY_BYTES;
}

function keyOf(body: unknown): string {
  const { key } = (body ?? {}) as { key?: unknown };
  if (typeof key !== 'string' || key === '' || key.length > LARGEST_RENDEZVOUS_KEY) {
    throw new TonyError('DATA_INVALID', 'the request does not contain a valid key');
  }
  return key;
}
