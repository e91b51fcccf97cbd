import { anySignal } from '../../../platform/async/any-signal.ts';
import type { Json } from '../../../platform/json-value.ts';
import { disposeElement } from '../reading/dispose.ts';
import type { DatasetNode } from '../reading/read-context.ts';
import type { Chunk, ChunkStream } from '../reading/stream.ts';

export interface PrefetchLimits {
  readonly items: number;
  readonly bytes: number;
}

export function prefetchNode<T>(inner: DatasetNode<T>, limits: PrefetchLimits): DatasetNode<T> {
  return {
    open: (context, from) =>
      new PrefetchStream((signal, at) => inner.open({ ...context, signal }, at), from, { signal: context.signal, ...limits }),
  };
}

/** Reads ahead by at least one chunk, and by further chunks until a limit is reached. */
export class PrefetchStream<T> implements ChunkStream<T> {
  readonly #open: (signal: AbortSignal, from: Json) => ChunkStream<T>;
  readonly #from: Json;
  readonly #limits: PrefetchLimits;
  readonly #abort = new AbortController();
  readonly #signal: AbortSignal;
  readonly #queue: Chunk<T>[] = [];
  #items = 0;
  #bytes = 0;
  #failure: { readonly error: unknown } | null = null;
  #isOver = false;
  #work: Promise<void> | null = null;
  #wakeReader: (() => void) | null = null;
  #wakeConsumer: (() => void) | null = null;

  constructor(
    open: (signal: AbortSignal, from: Json) => ChunkStream<T>,
    from: Json,
    { signal, ...limits }: PrefetchLimits & { readonly signal: AbortSignal },
  ) {
    this.#open = open;
    this.#from = from;
    this.#limits = limits;
    this.#signal = anySignal([signal, this.#abort.signal]);
  }

  /** Starts reading ahead. If this method is not called, the first call to `next` starts reading ahead. */
  begin(): void {
    this.#work ??= this.#readAhead();
  }

  async next(): Promise<Chunk<T> | null> {
    if (this.#abort.signal.aborted) {
      return null;
    }
    this.begin();
    while (this.#queue.length === 0 && !this.#isOver) {
      await new Promise<void>((resolve) => {
        this.#wakeConsumer = resolve;
      });
    }
    const chunk = this.#queue.shift();
    if (chunk !== undefined) {
      this.#items -= chunk.items.length;
      this.#bytes -= chunk.bytes;
      this.#wakeReader?.();
      return chunk;
    }
    if (this.#failure !== null) {
      throw this.#failure.error;
    }
    return null;
  }

  async close(): Promise<void> {
    this.#abort.abort();
    this.#wakeReader?.();
    await this.#work;
    for (const { items } of this.#queue.splice(0)) {
      disposeElement([...items]);
    }
  }

  async #readAhead(): Promise<void> {
    let stream: ChunkStream<T> | null = null;
    const wake = () => this.#wakeReader?.();
    this.#signal.addEventListener('abort', wake);
    try {
      stream = this.#open(this.#signal, this.#from);
      while (!this.#signal.aborted) {
        const chunk = await stream.next();
        if (chunk === null) {
          break;
        }
        this.#queue.push(chunk);
        this.#items += chunk.items.length;
        this.#bytes += chunk.bytes;
        this.#wakeConsumer?.();
        while ((this.#items >= this.#limits.items || this.#bytes >= this.#limits.bytes) && !this.#signal.aborted) {
          await new Promise<void>((resolve) => {
            this.#wakeReader = resolve;
          });
        }
      }
      // Without this error, the caller would mistake the abort for the end of the data.
      if (this.#signal.aborted && !this.#abort.signal.aborted) {
        throw this.#signal.reason;
      }
    } catch (error) {
      this.#failure = { error };
    } finally {
      this.#signal.removeEventListener('abort', wake);
      await stream?.close().catch(() => {});
      this.#isOver = true;
      this.#wakeConsumer?.();
    }
  }
}
