/** What a position is made of: it is kept in checkpoints. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };

/** Some elements that were read at once: for most of them nothing has to be awaited. */
export interface Chunk<T> {
  readonly items: readonly T[];
  /** Where the stream stood before the first of them: a stream that is opened there gives the same elements again. */
  readonly from: Json;
  /** About how much memory they hold: what was read from storage for them. */
  readonly bytes: number;
}

/**
 * A dataset that is being read. `next` is called again only when its promise has settled; null is the end. After `close`, which may come at
 * any time and more than once, no file is open and no connection held.
 */
export interface ChunkStream<T> {
  next(): Promise<Chunk<T> | null>;
  close(): Promise<void>;
}

/** A stream that is only known after some waiting (files have to be listed). */
export class DeferredStream<T> implements ChunkStream<T> {
  readonly #open: () => Promise<ChunkStream<T>>;
  #stream: Promise<ChunkStream<T>> | null = null;
  #isClosed = false;

  constructor(open: () => Promise<ChunkStream<T>>) {
    this.#open = open;
  }

  async next(): Promise<Chunk<T> | null> {
    if (this.#isClosed) return null;
    this.#stream ??= this.#open();
    return await (await this.#stream).next();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const stream = await this.#stream?.catch(() => null);
    await stream?.close();
  }
}

/** A stream made by an async generator of chunks. */
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
