import { disposeElement } from './dispose.ts';
import type { Chunk, ChunkStream, Json } from './stream.ts';

/** Where a cursor stands: so many elements behind a place in the stream. */
export type CursorState = readonly [at: Json, skip: number];

/** Takes elements from a stream one by one or some at once, and knows at each of them where it stands. */
export class Cursor<T> {
  readonly #stream: ChunkStream<T>;
  #chunk: Chunk<T>;
  /** Elements of the chunk that are used. */
  #used = 0;
  /** Elements that were used before the position was stored. */
  #toSkip: number;
  #isClosed = false;

  /** @param open opens the stream at a place, null for its beginning. */
  constructor(open: (at: Json) => ChunkStream<T>, state: Json = null) {
    const [at, skip] = (state ?? [null, 0]) as CursorState;
    this.#stream = open(at);
    this.#chunk = { items: [], from: at, bytes: 0 };
    this.#toSkip = skip;
  }

  /** Up to `count` elements; fewer only at the end of the stream. */
  async take(count: number): Promise<{ readonly items: T[]; readonly bytes: number }> {
    const items: T[] = [];
    let bytes = 0;
    while (items.length < count && (await this.#fill())) {
      const all = this.#chunk.items;
      const to = Math.min(all.length, this.#used + count - items.length);
      bytes += (this.#chunk.bytes * (to - this.#used)) / all.length;
      for (let index = this.#used; index < to; index++) items.push(all[index] as T);
      this.#used = to;
    }
    return { items, bytes };
  }

  /** The next element if it is there already, which most are: then nothing has to be awaited. */
  poll(): { readonly value: T } | null {
    if (this.#used === this.#chunk.items.length || this.#toSkip > 0 || this.#isClosed) return null;
    return { value: this.#chunk.items[this.#used++] as T };
  }

  /** Whether there is another element. */
  async hasNext(): Promise<boolean> {
    return await this.#fill();
  }

  state(): CursorState {
    return [this.#chunk.from, this.#used + this.#toSkip];
  }

  /** Also frees what was read and not taken. Where it stands can still be asked. */
  async close(): Promise<void> {
    if (!this.#isClosed) {
      for (let index = this.#used; index < this.#chunk.items.length; index++) disposeElement(this.#chunk.items[index]);
    }
    this.#isClosed = true;
    await this.#stream.close();
  }

  /** False at the end; otherwise the chunk has elements that are not used. */
  async #fill(): Promise<boolean> {
    if (this.#isClosed) return false;
    while (this.#used === this.#chunk.items.length || this.#toSkip > 0) {
      const chunk = await this.#stream.next();
      if (chunk === null) return false;
      const skipped = Math.min(this.#toSkip, chunk.items.length);
      for (let index = 0; index < skipped; index++) disposeElement(chunk.items[index]);
      this.#chunk = chunk;
      this.#used = skipped;
      this.#toSkip -= skipped;
    }
    return true;
  }
}
