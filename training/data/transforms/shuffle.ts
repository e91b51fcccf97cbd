import type { Json } from '../../../platform/json-value.ts';
import { createRandom } from '../../../platform/random.ts';
import { Cursor } from '../reading/cursor.ts';
import { type DatasetNode, refuseSplits } from '../reading/read-context.ts';
import type { Chunk, ChunkStream } from '../reading/stream.ts';
import { PrefetchStream } from './prefetch.ts';

export interface ShuffleOptions {
  /** Number of elements in a block. */
  readonly bufferSize: number;
  /** Seed for shuffling, or null to use the reader's seed. */
  readonly seed: number | null;
  readonly reshuffleEachIteration: boolean;
}

/**
 * Shuffles the file order, and the elements in blocks of `bufferSize`. With blocks instead of the usual sliding window, a checkpoint needs
 * only the block's position and an index in the block, but no buffered elements. The length of the first block is random, so the blocks
 * differ between epochs. If the dataset fits in one block, every order is equally likely. The next block is read while the current block is
 * used, so up to two blocks are in memory.
 */
export function shuffleNode<T>(inner: DatasetNode<T>, options: ShuffleOptions): DatasetNode<T> {
  return {
    open(context, from) {
      refuseSplits(context, 'shuffle', 'a split keeps the order of its records');
      const { bufferSize, reshuffleEachIteration } = options;
      const seed = options.seed ?? context.seed;
      const passes = reshuffleEachIteration ? context.passes : [];
      const open = (signal: AbortSignal, at: Json) => {
        const own = { ...context, signal, fileOrderSeed: context.fileOrderSeed ?? seed, passes };
        const random = (block: number) => createRandom(seed, ...passes, context.share.index, block);
        return new BlockStream((place) => inner.open(own, place), bufferSize, random, at);
      };
      return new PrefetchStream(open, from, { signal: context.signal, items: 1, bytes: 1 });
    },
  };
}

/**
 * Yields one shuffled block after another.
 *
 * State: the block number, and the position of the block's first element.
 */
class BlockStream<T> implements ChunkStream<T> {
  readonly #cursor: Cursor<T>;
  readonly #size: number;
  readonly #random: (block: number) => () => number;
  #block: number;
  /** Elements of the second block, which were read together with the first block. */
  #carried: { items: T[]; from: Json; bytes: number } | null = null;

  constructor(open: (at: Json) => ChunkStream<T>, size: number, random: (block: number) => () => number, state: Json) {
    const [block, at] = (state ?? [0, null]) as [number, Json];
    this.#block = block;
    this.#size = size;
    this.#random = random;
    this.#cursor = new Cursor(open, at);
  }

  async next(): Promise<Chunk<T> | null> {
    const random = this.#random(this.#block);
    const { items, from, bytes } = this.#block === 0 ? await this.#readFirst(random) : await this.#read();
    if (items.length === 0) {
      return null;
    }
    for (let index = items.length - 1; index > 0; index--) {
      const other = Math.floor(random() * (index + 1));
      const item = items[index] as T;
      items[index] = items[other] as T;
      items[other] = item;
    }
    return { items, from: [this.#block++, from], bytes };
  }

  async #readFirst(random: () => number): Promise<{ items: T[]; from: Json; bytes: number }> {
    const from = this.#cursor.state();
    const length = 1 + Math.floor(random() * this.#size);
    const first = await this.#cursor.take(length);
    const between = this.#cursor.state();
    const second = await this.#cursor.take(this.#size - length);
    if (await this.#cursor.hasNext()) {
      this.#carried = { ...second, from: between };
      return { ...first, from };
    }
    return { items: [...first.items, ...second.items], from, bytes: first.bytes + second.bytes };
  }

  async #read(): Promise<{ items: T[]; from: Json; bytes: number }> {
    const begun = this.#carried;
    this.#carried = null;
    const from = begun?.from ?? this.#cursor.state();
    const rest = await this.#cursor.take(this.#size - (begun?.items.length ?? 0));
    return { items: [...(begun?.items ?? []), ...rest.items], from, bytes: (begun?.bytes ?? 0) + rest.bytes };
  }

  close(): Promise<void> {
    return this.#cursor.close();
  }
}
