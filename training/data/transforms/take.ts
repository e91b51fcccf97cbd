import type { Json } from '../../../platform/json-value.ts';
import { Cursor } from '../reading/cursor.ts';
import { deal } from '../reading/deal.ts';
import { type DatasetNode, type ReadContext, refuseSplits, undispatched } from '../reading/read-context.ts';
import { type Share, WHOLE } from '../reading/share.ts';
import type { ChunkStream } from '../reading/stream.ts';

const CHUNK_ELEMENTS = 256;

/**
 * Yields elements `start` to `end` (exclusive) of the whole dataset. The elements must be the same for any number of readers, so each
 * reader reads all of them and uses its share. State: the number of elements before the position, and the position in the dataset.
 */
export function sliceNode<T>(inner: DatasetNode<T>, start: number, end: number): DatasetNode<T> {
  const openWhole = (context: ReadContext, state: Json): ChunkStream<T> => {
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
  };
  return {
    open(context, from) {
      refuseSplits(context, 'take or skip', 'they apply to the whole dataset');
      const whole = { ...undispatched(context), share: WHOLE };
      return deal((at) => openWhole(whole, at), context.share, from);
    },
  };
}

/** Yields every n-th element of the whole dataset, for example to set aside validation data. */
export function shardNode<T>(inner: DatasetNode<T>, shard: Share): DatasetNode<T> {
  return {
    open(context, from) {
      refuseSplits(context, 'shard', 'it applies to the whole dataset');
      const whole = { ...undispatched(context), share: WHOLE };
      return deal((outer) => deal((at) => inner.open(whole, at), shard, outer), context.share, from);
    },
  };
}
