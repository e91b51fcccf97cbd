import type { Json } from '../../../platform/json-value.ts';
import { Cursor } from '../reading/cursor.ts';
import { deal } from '../reading/deal.ts';
import { disposeElement } from '../reading/dispose.ts';
import { type DatasetNode, type ReadContext, refuseSplits, undispatched } from '../reading/read-context.ts';
import { WHOLE } from '../reading/share.ts';
import type { ChunkStream } from '../reading/stream.ts';

const CHUNK_ELEMENTS = 256;

/**
 * Combines the n-th elements of several datasets, up to the end of the shortest dataset. The combinations must be the same for any number
 * of readers, so each reader reads all datasets and uses its share. State: the position in each dataset.
 */
export function zipNode<T>(inner: readonly DatasetNode<unknown>[], combine: (elements: readonly unknown[]) => T): DatasetNode<T> {
  const openWhole = (context: ReadContext, state: Json): ChunkStream<T> => {
    const places = (state ?? inner.map(() => null)) as readonly Json[];
    const cursors = inner.map((node, index) => new Cursor((at) => node.open(context, at), places[index] ?? null));
    return {
      next: async () => {
        const from = cursors.map((cursor) => cursor.state());
        const taken = await Promise.all(cursors.map((cursor) => cursor.take(CHUNK_ELEMENTS)));
        const count = Math.min(...taken.map(({ items }) => items.length));
        for (const { items } of taken) {
          disposeElement(items.slice(count));
        }
        if (count === 0) {
          return null;
        }
        const items = Array.from({ length: count }, (_, index) => combine(taken.map((part) => part.items[index])));
        return { items, from, bytes: taken.reduce((sum, { bytes }) => sum + bytes, 0) };
      },
      close: async () => {
        await Promise.all(cursors.map((cursor) => cursor.close()));
      },
    };
  };
  return {
    open(context, from) {
      refuseSplits(context, 'zip', 'it combines several datasets');
      const whole = { ...undispatched(context), share: WHOLE };
      return deal((at) => openWhole(whole, at), context.share, from);
    },
  };
}
