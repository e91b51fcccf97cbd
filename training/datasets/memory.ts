import type * as tfjs from '@tensorflow/tfjs';
import { deal } from './deal.ts';
import { disposeElement } from './dispose.ts';
import { type DatasetNode, type ReadContext, refuseSplits } from './read-context.ts';
import { type Chunk, type ChunkStream, type Json, streamOf } from './stream.ts';

const CHUNK_ELEMENTS = 256;

/** Elements that any reader can make: everybody makes all of them and takes its share. State: the number of elements before. */
export class IterableNode<T> implements DatasetNode<T> {
  readonly #iterate: () => Iterable<T> | AsyncIterable<T>;
  readonly #chunkElements: number;

  constructor(iterate: () => Iterable<T> | AsyncIterable<T>, chunkElements = CHUNK_ELEMENTS) {
    this.#iterate = iterate;
    this.#chunkElements = chunkElements;
  }

  open(context: ReadContext, from: Json): ChunkStream<T> {
    refuseSplits(context, 'fromArray, fromGenerator or fromTfDataset', 'its elements lie in no files');
    return deal((at) => streamOf(this.#chunks((at as number | null) ?? 0, context)), context.share, from);
  }

  async *#chunks(skip: number, { signal }: ReadContext): AsyncGenerator<Chunk<T>, void> {
    let index = 0;
    let items: T[] = [];
    for await (const item of this.#iterate()) {
      signal.throwIfAborted();
      if (index++ < skip) {
        disposeElement(item);
        continue;
      }
      items.push(item);
      if (items.length === this.#chunkElements) {
        yield { items, from: index - items.length, bytes: 0 };
        items = [];
      }
    }
    if (items.length > 0) yield { items, from: index - items.length, bytes: 0 };
  }
}

/** The elements of a tf.data dataset, in its own order: it has to give the same ones to everybody. */
export async function* elementsOfTfData<T>(dataset: tfjs.data.Dataset<tfjs.TensorContainer>): AsyncGenerator<T, void> {
  const iterator = await dataset.iterator();
  for (;;) {
    const { done, value } = await iterator.next();
    if (done) return;
    yield value as T;
  }
}
