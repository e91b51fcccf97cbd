import type * as tfjs from '@tensorflow/tfjs';
import type { Json } from '../../../platform/json-value.ts';
import { deal } from '../reading/deal.ts';
import { disposeElement } from '../reading/dispose.ts';
import { type DatasetNode, type ReadContext, refuseSplits } from '../reading/read-context.ts';
import { type Chunk, type ChunkStream, streamOf } from '../reading/stream.ts';

const CHUNK_ELEMENTS = 256;

/**
 * Yields elements in memory or from a function. Each reader iterates over all elements and takes its share. State: the number of elements
 * before the position.
 */
export class IterableNode<T> implements DatasetNode<T> {
  readonly #iterate: () => Iterable<T> | AsyncIterable<T>;
  readonly #chunkElements: number;

  constructor(iterate: () => Iterable<T> | AsyncIterable<T>, chunkElements = CHUNK_ELEMENTS) {
    this.#iterate = iterate;
    this.#chunkElements = chunkElements;
  }

  open(context: ReadContext, from: Json): ChunkStream<T> {
    refuseSplits(context, 'fromArray, fromGenerator or fromTfDataset', 'its elements do not come from files');
    return deal((at) => streamOf(this.#chunks((at as number | null) ?? 0, context)), context.share, from);
  }

  async *#chunks(skip: number, { signal }: ReadContext): AsyncGenerator<Chunk<T>, void> {
    let index = 0;
    for await (const all of inChunks(this.#iterate(), this.#chunkElements, signal)) {
      const items = all.slice(Math.max(0, skip - index));
      disposeElement(all.slice(0, all.length - items.length));
      index += all.length;
      if (items.length > 0) {
        yield { items, from: index - items.length, bytes: 0 };
      }
    }
  }
}

/** Groups elements into chunks, because an `await` for each element would often cost more than processing the element. */
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

/** Yields the elements of a tf.data dataset, which must be the same in the same order for every reader. */
export async function* elementsOfTfData<T>(dataset: tfjs.data.Dataset<tfjs.TensorContainer>): AsyncGenerator<T, void> {
  const iterator = await dataset.iterator();
  for (;;) {
    const { done, value } = await iterator.next();
    if (done) {
      return;
    }
    yield value as T;
  }
}
