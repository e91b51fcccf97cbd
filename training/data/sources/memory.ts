import type * as tfjs from '@tensorflow/tfjs';
import { deal } from '../reading/deal.ts';
import { disposeElement } from '../reading/dispose.ts';
import { type DatasetNode, type ReadContext, refuseSplits } from '../reading/read-context.ts';
import { CHUNK_ELEMENTS, type Chunk, streamOf } from '../reading/stream.ts';

/**
 * Yields elements from memory or from a function. Each reader iterates over all elements and uses its share.
 *
 * State: the number of elements before the position.
 */
export function iterableNode<T>(
  iterate: (missedPasses: number) => Iterable<T> | AsyncIterable<T>,
  chunkElements = CHUNK_ELEMENTS,
): DatasetNode<T> {
  async function* chunks(skip: number, { missedPasses = 0, signal }: ReadContext): AsyncGenerator<Chunk<T>, void> {
    let index = 0;
    for await (const all of inChunks(iterate(missedPasses), chunkElements, signal)) {
      const items = all.slice(Math.max(0, skip - index));
      disposeElement(all.slice(0, all.length - items.length));
      index += all.length;
      if (items.length > 0) {
        yield { items, from: index - items.length, bytes: 0 };
      }
    }
  }
  return {
    open(context, from) {
      refuseSplits(context, 'fromArray, fromGenerator or fromTfDataset', 'its elements do not come from files');
      return deal((at) => streamOf(chunks((at as number | null) ?? 0, context)), context.share, from);
    },
  };
}

/** Groups elements into chunks, because an `await` for each element often costs more than processing it. */
async function* inChunks<T>(elements: Iterable<T> | AsyncIterable<T>, size: number, signal: AbortSignal): AsyncGenerator<T[], void> {
  let items: T[] = [];
  if (Symbol.iterator in elements) {
    for (const item of elements) {
      if (items.push(item) < size) {
        continue;
      }
      signal.throwIfAborted();
      yield items;
      items = [];
    }
  } else {
    for await (const item of elements) {
      signal.throwIfAborted();
      if (items.push(item) < size) {
        continue;
      }
      yield items;
      items = [];
    }
  }
  if (items.length > 0) {
    yield items;
  }
}

/**
 * Yields the elements of a tf.data dataset. Every reader must get the same elements in the same order. Like `model.fitDataset`, it also
 * uses an element that a generator returns together with `done: true`.
 * @param missedPasses the passes read before a restart. `shuffle` draws a new order for each iterator, so the iterators of these passes are
 *   created again.
 */
export async function* elementsOfTfData<T>(
  dataset: tfjs.data.Dataset<tfjs.TensorContainer>,
  missedPasses: number,
): AsyncGenerator<T, void> {
  for (let pass = 0; pass < missedPasses; pass++) {
    await dataset.iterator();
  }
  const iterator = await dataset.iterator();
  for (;;) {
    const { done, value } = await iterator.next();
    if (value !== null && value !== undefined) {
      yield value as T;
    }
    if (done) {
      return;
    }
  }
}
