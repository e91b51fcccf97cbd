import { Cursor } from '../reading/cursor.ts';
import type { DatasetNode } from '../reading/read-context.ts';
import { type Batched, collate } from './collate.ts';

/**
 * Combines elements into batches.
 * @param prepare gives all elements in a batch the same shape, for example by padding. It receives the elements of the batch and the number
 *   of the first one.
 */
export function batchNode<T>(
  inner: DatasetNode<T>,
  size: number,
  dropRemainder: boolean,
  prepare = (items: readonly T[], _first: number): readonly T[] => items,
): DatasetNode<Batched<T>> {
  return {
    open(context, state) {
      const cursor = new Cursor((at) => inner.open(context, at), state);
      let first = 1;
      return {
        next: async () => {
          const from = cursor.state();
          const { items, bytes } = await cursor.take(size);
          if (items.length === 0 || (dropRemainder && items.length < size)) {
            return null;
          }
          const batch = collate(prepare(items, first), first);
          first += items.length;
          return { items: [batch], from, bytes };
        },
        close: () => cursor.close(),
      };
    },
  };
}
