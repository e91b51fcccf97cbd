import type { Json } from '../../../platform/json-value.ts';
import { Cursor } from '../reading/cursor.ts';
import { dealNode } from '../reading/deal.ts';
import { disposeElement } from '../reading/dispose.ts';
import type { DatasetNode } from '../reading/read-context.ts';
import { CHUNK_ELEMENTS } from '../reading/stream.ts';

/**
 * Combines the elements at the same index in several datasets. Ends with the shortest dataset. The combinations must not depend on the
 * number of readers, so each reader reads all datasets and uses its share.
 *
 * State: the position in each dataset.
 */
export function zipNode<T>(inner: readonly DatasetNode<unknown>[], combine: (elements: readonly unknown[]) => T): DatasetNode<T> {
  return dealNode('zip', 'it combines several datasets', (context, state) => {
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
  });
}
