import type { Json } from '../../../platform/json-value.ts';
import { Cursor } from '../reading/cursor.ts';
import { deal } from '../reading/deal.ts';
import { type DatasetNode, type ReadContext, refuseSplits, undispatched } from '../reading/read-context.ts';
import { type Share, WHOLE } from '../reading/share.ts';
import type { ChunkStream } from '../reading/stream.ts';

const CHUNK_ELEMENTS = 256;

/**
 * Yields elements `from` to `to` of the whole dataset. These must be the same for any number of readers, so each reader reads all of them
 * and uses its share. State: the number of elements before the position, and the position in the dataset.
 */
export class SliceNode<T> implements DatasetNode<T> {
  readonly #inner: DatasetNode<T>;
  readonly #from: number;
  readonly #to: number;

  constructor(inner: DatasetNode<T>, from: number, to: number) {
    this.#inner = inner;
    this.#from = from;
    this.#to = to;
  }

  open(context: ReadContext, from: Json): ChunkStream<T> {
    refuseSplits(context, 'take or skip', 'they count elements of the whole dataset');
    const whole = { ...undispatched(context), share: WHOLE };
    return deal((at) => this.#openWhole(whole, at), context.share, from);
  }

  #openWhole(context: ReadContext, state: Json): ChunkStream<T> {
    const [before, place] = (state ?? [0, null]) as [number, Json];
    let taken = before;
    const cursor = new Cursor((at) => this.#inner.open(context, at), state === null && this.#from > 0 ? [null, this.#from] : place);
    return {
      next: async () => {
        const from = [taken, cursor.state()];
        const { items, bytes } = await cursor.take(Math.min(CHUNK_ELEMENTS, this.#to - this.#from - taken));
        taken += items.length;
        return items.length === 0 ? null : { items, from, bytes };
      },
      close: () => cursor.close(),
    };
  }
}

/** Yields every n-th element of the whole dataset, for example to set aside validation data. */
export class ShardNode<T> implements DatasetNode<T> {
  readonly #inner: DatasetNode<T>;
  readonly #shard: Share;

  constructor(inner: DatasetNode<T>, shard: Share) {
    this.#inner = inner;
    this.#shard = shard;
  }

  open(context: ReadContext, from: Json): ChunkStream<T> {
    refuseSplits(context, 'shard', 'it counts elements of the whole dataset');
    const whole = { ...undispatched(context), share: WHOLE };
    return deal((outer) => deal((inner) => this.#inner.open(whole, inner), this.#shard, outer), context.share, from);
  }
}
