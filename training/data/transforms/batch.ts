import { Cursor } from '../reading/cursor.ts';
import type { DatasetNode } from '../reading/read-context.ts';
import { type Batched, collate } from './collate.ts';

/**
 * Combines elements into batches.
 * @param combine receives the elements of a batch and the number of the first one.
 */
export function batchNode<T, Batch = Batched<T>>(
  inner: DatasetNode<T>,
  size: number,
  dropRemainder: boolean,
  combine: (items: readonly T[], first: number) => Batch = collate as (items: readonly T[], first: number) => Batch,
): DatasetNode<Batch> {
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
          const batch = combine(items, first);
          first += items.length;
          return { items: [batch], from, bytes };
        },
        close: () => cursor.close(),
      };
    },
  };
}
