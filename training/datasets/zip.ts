import { Cursor } from './cursor.ts';
import { deal } from './deal.ts';
import { disposeElement } from './dispose.ts';
import { type DatasetNode, type ReadContext, refuseSplits, undispatched, WHOLE } from './read-context.ts';
import type { ChunkStream, Json } from './stream.ts';

const CHUNK_ELEMENTS = 256;

/**
 * The n-th elements of several datasets together, as long as each has one. Which ones these are does not depend on the number of readers, so
 * each of them reads all of them and takes its share. State: where each dataset stands.
 */
export class ZipNode<T> implements DatasetNode<T> {
  readonly #inner: readonly DatasetNode<unknown>[];
  readonly #combine: (elements: readonly unknown[]) => T;

  constructor(inner: readonly DatasetNode<unknown>[], combine: (elements: readonly unknown[]) => T) {
    this.#inner = inner;
    this.#combine = combine;
  }

  open(context: ReadContext, from: Json): ChunkStream<T> {
    refuseSplits(context, 'zip', 'its parts lie in several files');
    const whole = { ...undispatched(context), share: WHOLE };
    return deal((at) => this.#openWhole(whole, at), context.share, from);
  }

  #openWhole(context: ReadContext, state: Json): ChunkStream<T> {
    const places = (state ?? this.#inner.map(() => null)) as readonly Json[];
    const cursors = this.#inner.map((node, index) => new Cursor((at) => node.open(context, at), places[index] ?? null));
    return {
      next: async () => {
        const from = cursors.map((cursor) => cursor.state());
        const taken = await Promise.all(cursors.map((cursor) => cursor.take(CHUNK_ELEMENTS)));
        const count = Math.min(...taken.map(({ items }) => items.length));
        for (const { items } of taken) disposeElement(items.slice(count));
        if (count === 0) return null;
        const items = Array.from({ length: count }, (_, index) => this.#combine(taken.map((part) => part.items[index])));
        return { items, from, bytes: taken.reduce((sum, { bytes }) => sum + bytes, 0) };
      },
      close: async () => {
        await Promise.all(cursors.map((cursor) => cursor.close()));
      },
    };
  }
}
