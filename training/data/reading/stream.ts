import type { Json } from '../../../platform/json-value.ts';

/** Number of elements in one chunk. */
export const CHUNK_ELEMENTS = 256;

/** Elements that were read together. With chunks, a reader rarely needs to wait for a single element. */
export interface Chunk<T> {
  readonly items: readonly T[];
  /** Position of the first element. A stream that starts at this position yields the same elements again. */
  readonly from: Json;
  /** Approximate memory needed for the elements: the number of bytes read from storage for them. */
  readonly bytes: number;
}

/**
 * A dataset that is being read. `next` resolves with null at the end, and the caller must await each call before the next one. `close` may
 * be called at any time and more than once. `close` waits until all files and connections are closed.
 */
export interface ChunkStream<T> {
  next(): Promise<Chunk<T> | null>;
  close(): Promise<void>;
}

/** A stream that needs time to open, for example to list files. It opens on the first call to `next`. */
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
