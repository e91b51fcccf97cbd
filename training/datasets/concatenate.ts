import { type DatasetNode, type ReadContext, refuseSplits } from './read-context.ts';
import type { Chunk, ChunkStream, Json } from './stream.ts';

/** One dataset behind the other, each of them shared by the readers. State: which of them, and where it stands. */
export class ConcatenateNode<T> implements DatasetNode<T> {
  readonly #inner: readonly DatasetNode<T>[];

  constructor(inner: readonly DatasetNode<T>[]) {
    this.#inner = inner;
  }

  open(context: ReadContext, from: Json): ChunkStream<T> {
    refuseSplits(context, 'concatenate', 'its parts lie in several sources');
    return new ConcatenatedStream((which, at) => this.#inner[which]?.open(context, at) ?? null, from);
  }
}

class ConcatenatedStream<T> implements ChunkStream<T> {
  /** null: there is no such dataset. */
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
      if (this.#stream === null) return null;
      const chunk = await this.#stream.next();
      if (chunk !== null) return { ...chunk, from: [this.#which, chunk.from] };
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
