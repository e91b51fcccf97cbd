import type { Json } from '../../../platform/json-value.ts';
import { Cursor } from '../reading/cursor.ts';
import type { DatasetNode, ReadContext } from '../reading/read-context.ts';
import type { ChunkStream } from '../reading/stream.ts';
import { type Batched, collate } from './collate.ts';

export class BatchNode<T> implements DatasetNode<Batched<T>> {
  readonly #inner: DatasetNode<T>;
  readonly #size: number;
  readonly #dropRemainder: boolean;
  readonly #prepare: (items: readonly T[]) => readonly T[];

  /** @param prepare converts the elements of a batch to equal shapes, for example by padding. */
  constructor(inner: DatasetNode<T>, size: number, dropRemainder: boolean, prepare = (items: readonly T[]): readonly T[] => items) {
    this.#inner = inner;
    this.#size = size;
    this.#dropRemainder = dropRemainder;
    this.#prepare = prepare;
  }

  open(context: ReadContext, state: Json): ChunkStream<Batched<T>> {
    const cursor = new Cursor((at) => this.#inner.open(context, at), state);
    return {
      next: async () => {
        const from = cursor.state();
        const { items, bytes } = await cursor.take(this.#size);
        if (items.length === 0 || (this.#dropRemainder && items.length < this.#size)) {
          return null;
        }
        return { items: [collate(this.#prepare(items))], from, bytes };
      },
      close: () => cursor.close(),
    };
  }
}
