import type { Json } from '../../../platform/json-value.ts';
import { type DatasetNode, type ReadContext, refuseSplits } from '../reading/read-context.ts';
import type { Chunk, ChunkStream } from '../reading/stream.ts';

/**
 * Concatenates datasets; each of them is divided among the readers. State: the index of the current dataset, and the position in that
 * dataset.
 */
export class ConcatenateNode<T> implements DatasetNode<T> {
  readonly #inner: readonly DatasetNode<T>[];

  constructor(inner: readonly DatasetNode<T>[]) {
    this.#inner = inner;
  }

  open(context: ReadContext, from: Json): ChunkStream<T> {
    refuseSplits(context, 'concatenate', 'it combines several datasets');
    return new ConcatenatedStream((which, at) => this.#inner[which]?.open(context, at) ?? null, from);
  }
}

class ConcatenatedStream<T> implements ChunkStream<T> {
  /** Opens dataset number `which` at a position; returns null after the last dataset. */
  readonly #open: (which: number, at: Json) => ChunkStream<T> | null;
  #which: number;
  #at: Json;
  #stream: ChunkStream<T> | null = null;
  #isClosed = false;

  constructor(open: (which: number, at: Json) => ChunkStream<T> | null, state: Json) {
    const [which, at] = (state ?? [0, null]) as [number, Json];
    this.#open = open;
    this.#which = which;
    this.#at = at;
  }

  async next(): Promise<Chunk<T> | null> {
    while (!this.#isClosed) {
      this.#stream ??= this.#open(this.#which, this.#at);
      if (this.#stream === null) {
        return null;
      }
      const chunk = await this.#stream.next();
      if (chunk !== null) {
        return { ...chunk, from: [this.#which, chunk.from] };
      }
      await this.#stream.close();
      this.#stream = null;
      this.#which++;
      this.#at = null;
    }
    return null;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#stream?.close();
  }
}
