import type { Json } from '../../../platform/json-value.ts';
import { type DatasetNode, type ReadContext, refuseSplits } from '../reading/read-context.ts';
import type { Chunk, ChunkStream } from '../reading/stream.ts';

/** Repeats the dataset, each time in a new order if it is shuffled. State: the number of the pass, and the position in it. */
export class RepeatNode<T> implements DatasetNode<T> {
  readonly #inner: DatasetNode<T>;
  readonly #count: number;

  /** @param count the number of passes; Infinity for endless repetition. */
  constructor(inner: DatasetNode<T>, count: number) {
    this.#inner = inner;
    this.#count = count;
  }

  open(context: ReadContext, from: Json): ChunkStream<T> {
    refuseSplits(context, 'repeat', 'each split is read only once');
    const open = (pass: number, at: Json, onPassedOver: () => void) =>
      this.#inner.open({ ...context, passes: [...context.passes, pass], onPassedOver }, at);
    return new RepeatedStream(open, this.#count, from);
  }
}

class RepeatedStream<T> implements ChunkStream<T> {
  readonly #open: (pass: number, at: Json, onPassedOver: () => void) => ChunkStream<T>;
  readonly #count: number;
  #pass: number;
  #at: Json;
  #stream: ChunkStream<T> | null = null;
  #isEmpty: boolean;
  /** True if other readers have received all splits of this pass. */
  #isPassedOver = false;

  constructor(open: (pass: number, at: Json, onPassedOver: () => void) => ChunkStream<T>, count: number, state: Json) {
    const [pass, at] = (state ?? [0, null]) as [number, Json];
    this.#open = open;
    this.#count = count;
    this.#pass = pass;
    this.#at = at;
    // A stored position implies that the dataset has elements.
    this.#isEmpty = state === null;
  }

  async next(): Promise<Chunk<T> | null> {
    while (this.#pass < this.#count) {
      this.#stream ??= this.#open(this.#pass, this.#at, () => {
        this.#isPassedOver = true;
      });
      const chunk = await this.#stream.next();
      if (chunk !== null) {
        this.#isEmpty &&= chunk.items.length === 0;
        return { ...chunk, from: [this.#pass, chunk.from] };
      }
      await this.#stream.close();
      this.#stream = null;
      // Endless repetition of an empty dataset would never return.
      if (this.#isEmpty && !this.#isPassedOver) {
        return null;
      }
      this.#isPassedOver = false;
      this.#pass++;
      this.#at = null;
    }
    return null;
  }

  async close(): Promise<void> {
    await this.#stream?.close();
  }
}
