import type { Json } from '../../../platform/json-value.ts';
import { disposeElement } from './dispose.ts';
import type { Chunk, ChunkStream } from './stream.ts';

/** A cursor's position: a position in the stream, and the number of elements to skip from there. */
export type CursorState = readonly [at: Json, skip: number];

/** Takes elements from a stream and keeps track of the exact position. */
export class Cursor<T> {
  readonly #stream: ChunkStream<T>;
  #chunk: Chunk<T>;
  #used = 0;
  /** Number of elements at the start of the stream that the cursor must skip, because they come before its position. */
  #toSkip: number;
  #isClosed = false;

  constructor(open: (at: Json) => ChunkStream<T>, state: Json = null) {
    const [at, skip] = (state ?? [null, 0]) as CursorState;
    this.#stream = open(at);
    this.#chunk = { items: [], from: at, bytes: 0 };
    this.#toSkip = skip;
  }

  /** Takes `count` elements. Takes fewer elements only at the end of the stream. */
  async take(count: number): Promise<{ readonly items: T[]; readonly bytes: number }> {
    const items: T[] = [];
    let bytes = 0;
    while (items.length < count && (await this.#fill())) {
      const all = this.#chunk.items;
      const to = Math.min(all.length, this.#used + count - items.length);
      bytes += (this.#chunk.bytes * (to - this.#used)) / all.length;
      for (let index = this.#used; index < to; index++) {
        items.push(all[index] as T);
      }
      this.#used = to;
    }
    return { items, bytes };
  }

  /** Returns the next element if it is in memory already, and null otherwise. Never waits. */
  poll(): { readonly value: T } | null {
    if (this.#used === this.#chunk.items.length || this.#toSkip > 0 || this.#isClosed) {
      return null;
    }
    return { value: this.#chunk.items[this.#used++] as T };
  }

  /** Returns true if another element follows. Reads the next chunk if necessary. */
  async hasNext(): Promise<boolean> {
    return await this.#fill();
  }

  state(): CursorState {
    return [this.#chunk.from, this.#used + this.#toSkip];
  }

  /** Closes the stream, and frees the elements that the caller has not taken. `state` still works afterwards. */
  async close(): Promise<void> {
    if (!this.#isClosed) {
      for (let index = this.#used; index < this.#chunk.items.length; index++) {
        disposeElement(this.#chunk.items[index]);
      }
    }
    this.#isClosed = true;
    await this.#stream.close();
  }

  async #fill(): Promise<boolean> {
    if (this.#isClosed) {
      return false;
    }
    while (this.#used === this.#chunk.items.length || this.#toSkip > 0) {
      const chunk = await this.#stream.next();
      if (chunk === null) {
        return false;
      }
      const skipped = Math.min(this.#toSkip, chunk.items.length);
      for (let index = 0; index < skipped; index++) {
        disposeElement(chunk.items[index]);
      }
      this.#chunk = chunk;
      this.#used = skipped;
      this.#toSkip -= skipped;
    }
    return true;
  }
}
