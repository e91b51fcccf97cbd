import type { Json } from '../../../platform/json-value.ts';
import { disposeElement } from './dispose.ts';
import type { Share } from './share.ts';
import type { Chunk, ChunkStream } from './stream.ts';

/**
 * Yields every `count`-th element of a stream, starting with element `index`. This is for datasets that cannot be divided at their source,
 * so each reader reads the whole stream. State: the position in the stream, and the number of elements before it.
 */
export function deal<T>(open: (from: Json) => ChunkStream<T>, share: Share, from: Json): ChunkStream<T> {
  if (share.count === 1) {
    return open(from);
  }
  const [at, before] = (from ?? [null, 0]) as [Json, number];
  return new DealtStream(open(at), share, before);
}

class DealtStream<T> implements ChunkStream<T> {
  readonly #stream: ChunkStream<T>;
  readonly #share: Share;
  #before: number;

  constructor(stream: ChunkStream<T>, share: Share, before: number) {
    this.#stream = stream;
    this.#share = share;
    this.#before = before;
  }

  async next(): Promise<Chunk<T> | null> {
    const chunk = await this.#stream.next();
    if (chunk === null) {
      return null;
    }
    const before = this.#before;
    this.#before += chunk.items.length;
    const items: T[] = [];
    for (const [index, item] of chunk.items.entries()) {
      if ((before + index) % this.#share.count === this.#share.index) {
        items.push(item);
      } else {
        disposeElement(item);
      }
    }
    return { items, from: [chunk.from, before], bytes: (chunk.bytes * items.length) / Math.max(1, chunk.items.length) };
  }

  close(): Promise<void> {
    return this.#stream.close();
  }
}
