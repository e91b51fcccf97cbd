import type { Json } from '../../../platform/json-value.ts';
import { type DispatchedPlace, dispatchedPlace, type OpenPass } from './dispatch-log.ts';
import { otherFiles } from './file-set.ts';
import { type DatasetNode, type ReadContext, refuseSplits, undispatchable } from './read-context.ts';
import type { FileFormat, Split } from './split.ts';
import type { Chunk, ChunkStream } from './stream.ts';

/** Makes the inner dataset's file sources assign their files on demand. */
export function dispatchNode<T>(inner: DatasetNode<T>): DatasetNode<T> {
  return {
    open(context, from) {
      refuseSplits(context, 'dispatch()', 'the job already assigns its splits one by one');
      if (context.dispatchLog === undefined) {
        throw undispatchable();
      }
      return inner.open({ ...context, dispatch: true }, from);
    },
  };
}

/**
 * Yields the records of the splits assigned to this reader.
 * @param splits all splits of the dataset. The assigner assigns them in this order.
 */
export function dispatchedStream<T>(
  splits: readonly Split[],
  pass: OpenPass,
  format: FileFormat<T>,
  context: ReadContext,
  state: Json,
): ChunkStream<T> {
  const [stored, first, from] = dispatchedPlace(state) ?? [pass.number, 0, null];
  if (stored !== pass.number) {
    throw otherFiles();
  }
  let number = first;
  let at: Json = from;
  let chunks: AsyncGenerator<Chunk<T>, void> | null = null;
  let isClosed = false;
  return {
    next: async () => {
      while (!isClosed) {
        if (chunks === null) {
          const index = await pass.split(number, context.signal);
          if (index === null) {
            if (number === 0 && splits.length > 0) {
              context.onPassedOver?.();
            }
            return null;
          }
          chunks = format.read(splits[index] as Split, at, context);
        }
        const { done, value } = await chunks.next();
        if (!done) {
          const place: DispatchedPlace = { dispatched: [pass.number, number, value.from] };
          return { ...value, from: place };
        }
        chunks = null;
        number++;
        at = null;
      }
      return null;
    },
    close: async () => {
      isClosed = true;
      pass.close();
      await chunks?.return();
    },
  };
}
