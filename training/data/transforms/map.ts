import type { Json } from '../../../platform/json-value.ts';
import { Cursor } from '../reading/cursor.ts';
import { disposeElement } from '../reading/dispose.ts';
import { checkIterable, type DatasetNode, type ReadContext } from '../reading/read-context.ts';
import type { Chunk, ChunkStream } from '../reading/stream.ts';
import { batchNode } from './batch.ts';

/** Converts the elements of each chunk. The new chunk has the same position as the original chunk. */
export function chunkMapNode<T, U>(
  inner: DatasetNode<T>,
  convert: (items: readonly T[], context: ReadContext) => U[] | Promise<U[]>,
): DatasetNode<U> {
  return {
    open(context, from) {
      const stream = inner.open(context, from);
      return {
        next: async () => {
          const chunk = await stream.next();
          return chunk && { ...chunk, items: await convert(chunk.items, context) };
        },
        close: () => stream.close(),
      };
    },
  };
}

/** Name of the property of a conversion that converts elements directly to a batch. */
export const BATCH_CONVERSION = Symbol('batch conversion');

/** A function that converts one element. It may also convert several elements to the batch that `collate` makes of the converted ones. */
type Conversion<T, U> = ((element: T) => U | Promise<U>) & {
  readonly [BATCH_CONVERSION]?: (elements: readonly T[], first: number) => unknown;
};

export function mapNode<T, U>(inner: DatasetNode<T>, convert: Conversion<T, U>): DatasetNode<U> {
  const toBatch = convert[BATCH_CONVERSION];
  const mapped = eachNode(inner, convert);
  return toBatch === undefined
    ? mapped
    : { open: (context, from) => mapped.open(context, from), batched: (size, drop) => batchNode(inner, size, drop, toBatch) };
}

function eachNode<T, U>(inner: DatasetNode<T>, convert: (element: T) => U | Promise<U>): DatasetNode<U> {
  return chunkMapNode(inner, async (items) => {
    const results: U[] = [];
    try {
      for (const item of items) {
        const result = convert(item);
        // An `await` for each record would cost more than parsing the record, so only promises are awaited.
        results.push(isPromise(result) ? await result : result);
      }
    } catch (error) {
      disposeElement(results);
      throw error;
    }
    return results;
  });
}

export function filterNode<T>(inner: DatasetNode<T>, keep: (element: T) => boolean | Promise<boolean>): DatasetNode<T> {
  return chunkMapNode(inner, async (items) => {
    const results: T[] = [];
    for (const item of items) {
      const kept = keep(item);
      if (isPromise(kept) ? await kept : kept) {
        results.push(item);
      } else {
        disposeElement(item);
      }
    }
    return results;
  });
}

export function flatMapNode<T, U>(inner: DatasetNode<T>, convert: (element: T) => Iterable<U> | Promise<Iterable<U>>): DatasetNode<U> {
  return chunkMapNode(inner, async (items) => {
    const results: U[] = [];
    for (const item of items) {
      const made = convert(item);
      const list = isPromise(made) ? await made : made;
      checkIterable(list, 'the function of flatMap returned', [Symbol.iterator]);
      for (const result of list) {
        results.push(result);
      }
    }
    return results;
  });
}

function isPromise<T>(value: T | Promise<T>): value is Promise<T> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === 'function';
}

/** Converts up to `calls` elements concurrently. Keeps the element order. */
export function parallelMapNode<T, U>(
  inner: DatasetNode<T>,
  convert: (element: T, context: ReadContext) => U | Promise<U>,
  calls: number,
): DatasetNode<U> {
  return {
    open(context, from) {
      const cursor = new Cursor((at) => inner.open(context, at), from);
      return new ParallelMapStream(cursor, async (element) => await convert(element, context), calls);
    },
  };
}

class ParallelMapStream<T, U> implements ChunkStream<U> {
  readonly #cursor: Cursor<T>;
  readonly #convert: (element: T) => Promise<U>;
  readonly #calls: number;
  readonly #running: { readonly from: Json; readonly bytes: number; readonly result: Promise<U> }[] = [];
  #isOver = false;

  constructor(cursor: Cursor<T>, convert: (element: T) => Promise<U>, calls: number) {
    this.#cursor = cursor;
    this.#convert = convert;
    this.#calls = calls;
  }

  async next(): Promise<Chunk<U> | null> {
    while (!this.#isOver && this.#running.length < this.#calls) {
      const from = this.#cursor.state();
      const { items, bytes } = await this.#cursor.take(1);
      if (items.length === 0) {
        this.#isOver = true;
        break;
      }
      const result = this.#convert(items[0] as T);
      // The results are awaited in order, possibly long after this promise has settled. Without this handler, an early rejection would
      // crash the process.
      result.catch(() => {});
      this.#running.push({ from, bytes, result });
    }
    const first = this.#running[0];
    if (first === undefined) {
      return null;
    }
    const item = await first.result;
    this.#running.shift();
    return { items: [item], from: first.from, bytes: first.bytes };
  }

  async close(): Promise<void> {
    this.#isOver = true;
    await this.#cursor.close();
    for (const { result } of this.#running.splice(0)) {
      result.then(disposeElement, () => {});
    }
  }
}
