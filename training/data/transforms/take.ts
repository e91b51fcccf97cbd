import type { Json } from '../../../platform/json-value.ts';
import { Cursor } from '../reading/cursor.ts';
import { deal, dealNode } from '../reading/deal.ts';
import type { DatasetNode } from '../reading/read-context.ts';
import type { Share } from '../reading/share.ts';
import { CHUNK_ELEMENTS } from '../reading/stream.ts';

/**
 * Yields elements `start` to `end` (exclusive) of the whole dataset. These elements must not depend on the number of readers, so each
 * reader reads all of them and uses its share.
 *
 * State: the number of elements before the position, and the position in the dataset.
 */
export function sliceNode<T>(inner: DatasetNode<T>, start: number, end: number): DatasetNode<T> {
  return dealNode('take or skip', 'they apply to the whole dataset', (context, state) => {
    const [before, place] = (state ?? [0, [null, start]]) as [number, Json];
    const cursor = new Cursor((at) => inner.open(context, at), place);
    let taken = before;
    return {
      next: async () => {
        const from = [taken, cursor.state()];
        const { items, bytes } = await cursor.take(Math.min(CHUNK_ELEMENTS, end - start - taken));
        taken += items.length;
        return items.length === 0 ? null : { items, from, bytes };
      },
      close: () => cursor.close(),
    };
  });
}

/** Yields every n-th element of the whole dataset, for example to set aside validation data. */
export function shardNode<T>(inner: DatasetNode<T>, shard: Share): DatasetNode<T> {
  return dealNode('shard', 'it applies to the whole dataset', (context, from) => deal((at) => inner.open(context, at), shard, from));
}
