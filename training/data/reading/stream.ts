import type { Json } from '../../../platform/json-value.ts';

/** The number of elements that operations put into one chunk. */
export const CHUNK_ELEMENTS = 256;

/** Elements that were read together. Chunks make most elements available without waiting. */
export interface Chunk<T> {
  readonly items: readonly T[];
  /** The position before the first element. A stream that is opened at this position yields the same elements again. */
  readonly from: Json;
  /** The approximate memory used by the elements, measured as the number of bytes read from storage for them. */
  readonly bytes: number;
}

/**
 * An open dataset. The caller must await each `next` call before the following call; null marks the end. `close` may be called repeatedly
 * and at any time. It resolves after all files and connections are closed.
 */
export interface ChunkStream<T> {
  next(): Promise<Chunk<T> | null>;
  close(): Promise<void>;
}

/** Opens a stream asynchronously on the first `next` call, for example after listing files. */
export class DeferredStream<T> implements ChunkStream<T> {
  readonly #open: () => Promise<ChunkStream<T>>;
  #stream: Promise<ChunkStream<T>> | null = null;
  #isClosed = false;

  constructor(open: () => Promise<ChunkStream<T>>) {
    this.#open = open;
  }

  async next(): Promise<Chunk<T> | null> {
    if (this.#isClosed) {
      return null;
    }
    this.#stream ??= this.#open();
    return await (await this.#stream).next();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const stream = await this.#stream?.catch(() => null);
    await stream?.close();
  }
}

export function streamOf<T>(chunks: AsyncGenerator<Chunk<T>, void>): ChunkStream<T> {
  return {
    async next() {
      const { done, value } = await chunks.next();
      return done ? null : value;
    },
    async close() {
      await chunks.return();
    },
  };
}
