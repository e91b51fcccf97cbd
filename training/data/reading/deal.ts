import type { Json } from '../../../platform/json-value.ts';
import { disposeElement } from './dispose.ts';
import { type DatasetNode, type ReadContext, refuseSplits, undispatched } from './read-context.ts';
import { type Share, WHOLE } from './share.ts';
import type { ChunkStream } from './stream.ts';

/**
 * Yields every `count`-th element of a stream, starting with element number `index`. Each reader reads the whole stream, so this also works
 * for datasets that cannot be divided at their source.
 *
 * State: the position in the stream, and the number of elements before it.
 */
export function deal<T>(open: (from: Json) => ChunkStream<T>, { index, count }: Share, from: Json): ChunkStream<T> {
  if (count === 1) {
    return open(from);
  }
  const [at, skipped] = (from ?? [null, 0]) as [Json, number];
  let seen = skipped;
  const stream = open(at);
  return {
    next: async () => {
      const chunk = await stream.next();
      if (chunk === null) {
        return null;
      }
      const before = seen;
      seen += chunk.items.length;
      const items: T[] = [];
      for (const [offset, item] of chunk.items.entries()) {
        if ((before + offset) % count === index) {
          items.push(item);
        } else {
          disposeElement(item);
        }
      }
      return { items, from: [chunk.from, before], bytes: (chunk.bytes * items.length) / Math.max(1, chunk.items.length) };
    },
    close: () => stream.close(),
  };
}

/** Creates a node for an operation on the whole dataset. Each reader reads all results of the operation and uses its share of them. */
export function dealNode<T>(operation: string, why: string, open: (context: ReadContext, from: Json) => ChunkStream<T>): DatasetNode<T> {
  return {
    open(context, from) {
      refuseSplits(context, operation, why);
      const whole = { ...undispatched(context), share: WHOLE };
      return deal((at) => open(whole, at), context.share, from);
    },
  };
}
