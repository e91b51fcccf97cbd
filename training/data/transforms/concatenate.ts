import type { Json } from '../../../platform/json-value.ts';
import { type DatasetNode, refuseSplits } from '../reading/read-context.ts';
import type { ChunkStream } from '../reading/stream.ts';

/**
 * Reads several datasets one after another. The readers divide each dataset.
 *
 * State: the index of the current dataset, and the position in that dataset.
 */
export function concatenateNode<T>(inner: readonly DatasetNode<T>[]): DatasetNode<T> {
  return {
    open(context, state) {
      refuseSplits(context, 'concatenate', 'it combines several datasets');
      let [which, at] = (state ?? [0, null]) as [number, Json];
      let stream: ChunkStream<T> | undefined;
      let isClosed = false;
      return {
        next: async () => {
          while (!isClosed) {
            stream ??= inner[which]?.open(context, at);
            if (stream === undefined) {
              return null;
            }
            const chunk = await stream.next();
            if (chunk !== null) {
              return { ...chunk, from: [which, chunk.from] };
            }
            await stream.close();
            stream = undefined;
            which++;
            at = null;
          }
          return null;
        },
        close: async () => {
          isClosed = true;
          await stream?.close();
        },
      };
    },
  };
}
