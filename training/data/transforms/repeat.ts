import type { Json } from '../../../platform/json-value.ts';
import { type DatasetNode, refuseSplits } from '../reading/read-context.ts';
import type { ChunkStream } from '../reading/stream.ts';

/**
 * Repeats a dataset. A shuffled dataset has a new order in each pass.
 *
 * State: the pass number, and the position in the pass.
 * @param count the number of passes, which may be Infinity.
 */
export function repeatNode<T>(inner: DatasetNode<T>, count: number): DatasetNode<T> {
  return {
    open(context, state) {
      refuseSplits(context, 'repeat', 'each split is read only once');
      let [pass, at] = (state ?? [0, null]) as [number, Json];
      let stream: ChunkStream<T> | null = null;
      let missedPasses = (count === Number.POSITIVE_INFINITY ? 0 : (context.missedPasses ?? 0) * count) + pass;
      // A stored position is only possible if the dataset has elements.
      let isEmpty = state === null;
      // True if other readers have received all splits of this pass.
      let isPassedOver = false;
      const onPassedOver = () => {
        isPassedOver = true;
      };
      return {
        next: async () => {
          while (pass < count) {
            stream ??= inner.open({ ...context, passes: [...context.passes, pass], missedPasses, onPassedOver }, at);
            missedPasses = 0;
            const chunk = await stream.next();
            if (chunk !== null) {
              isEmpty &&= chunk.items.length === 0;
              return { ...chunk, from: [pass, chunk.from] };
            }
            await stream.close();
            stream = null;
            // An empty dataset would make this loop endless.
            if (isEmpty && !isPassedOver) {
              return null;
            }
            isPassedOver = false;
            pass++;
            at = null;
          }
          return null;
        },
        close: async () => {
          await stream?.close();
        },
      };
    },
  };
}
