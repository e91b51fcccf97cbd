import type { Json } from '../../../platform/json-value.ts';
import { Cursor } from '../reading/cursor.ts';
import { disposeElement } from '../reading/dispose.ts';
import { type DatasetNode, refuseSplits } from '../reading/read-context.ts';
import { WHOLE } from '../reading/share.ts';
import { CHUNK_ELEMENTS, type Chunk, type ChunkStream } from '../reading/stream.ts';
import { PrefetchStream } from './prefetch.ts';

export interface InterleaveOptions {
  /** Number of inner datasets to read concurrently. Default: 4. */
  readonly cycleLength?: number;
  /** Number of consecutive elements to take from each inner dataset. Default: 1. */
  readonly blockLength?: number;
}

/** Limits for reading ahead in each inner dataset. */
const AHEAD = { items: 256, bytes: 4 * 1024 * 1024 };

/**
 * Converts each outer element to an inner dataset, and reads several inner datasets in turn. The readers divide the outer elements, so all
 * elements of an inner dataset go to the same reader.
 *
 * State: the position in the outer dataset; for each open inner dataset, the position of its outer element and the position in the inner
 * dataset; the number of the current inner dataset; and the number of elements that this dataset has yielded in its current turn.
 */
export function interleaveNode<T, U>(
  inner: DatasetNode<T>,
  convert: (element: T) => Promise<DatasetNode<U>>,
  options: Required<InterleaveOptions>,
): DatasetNode<U> {
  return {
    open(context, from) {
      refuseSplits(context, 'interleave', 'it mixes elements of several datasets');
      const openElements = (at: Json) => new Cursor((place) => inner.open(context, place), at);
      const openDataset = async (element: T, at: Json) => {
        const node = await convert(element);
        const own = { ...context, share: WHOLE, missedPasses: 0, dispatch: false, dispatchLog: undefined };
        const open = (signal: AbortSignal, place: Json) => node.open({ ...own, signal }, place);
        return new Cursor((place) => {
          const stream = new PrefetchStream(open, place, { signal: context.signal, ...AHEAD });
          stream.begin();
          return stream;
        }, at);
      };
      return new InterleavedStream<T, U>(openElements, openDataset, options, from);
    },
  };
}

interface Open<U> {
  readonly element: Json;
  readonly cursor: Cursor<U>;
}

type InterleaveState = readonly [elements: Json, open: readonly (readonly [element: Json, at: Json] | null)[], turn: number, given: number];

class InterleavedStream<T, U> implements ChunkStream<U> {
  readonly #openElements: (at: Json) => Cursor<T>;
  readonly #openDataset: (element: T, at: Json) => Promise<Cursor<U>>;
  readonly #block: number;
  readonly #elements: Cursor<T>;
  /** Inner datasets that were open when the state was stored. The first call to `next` opens them again. */
  readonly #stored: InterleaveState[1] | null;
  #hasBegun = false;
  /**
   * Open inner datasets, in the order of their turns. When a dataset ends, its place is null until that place's next turn, which opens
   * another dataset.
   */
  readonly #open: (Open<U> | null)[];
  #hasMore = true;
  #turn: number;
  #given: number;
  #isClosed = false;

  constructor(
    openElements: (at: Json) => Cursor<T>,
    openDataset: (element: T, at: Json) => Promise<Cursor<U>>,
    { cycleLength, blockLength }: Required<InterleaveOptions>,
    state: Json,
  ) {
    const [elements, open, turn, given] = (state ?? [null, null, 0, 0]) as InterleaveState;
    this.#openElements = openElements;
    this.#openDataset = openDataset;
    this.#block = blockLength;
    this.#elements = openElements(elements);
    this.#stored = open;
    this.#open = new Array<Open<U> | null>(cycleLength).fill(null);
    this.#turn = turn;
    this.#given = given;
  }

  async next(): Promise<Chunk<U> | null> {
    await this.#begin();
    const from = this.#state();
    const items: U[] = [];
    let bytes = 0;
    let empty = 0;
    while (items.length < CHUNK_ELEMENTS && empty <= this.#open.length && !this.#isClosed) {
      const current: Open<U> | null = this.#open[this.#turn] ?? (await this.#openNext());
      this.#open[this.#turn] = current;
      const taken = await current?.cursor.take(this.#block - this.#given);
      if (taken === undefined || taken.items.length === 0) {
        empty = current === null ? empty + 1 : 0;
        await current?.cursor.close();
        this.#open[this.#turn] = null;
        this.#pass();
        continue;
      }
      empty = 0;
      for (const item of taken.items) {
        items.push(item);
      }
      bytes += taken.bytes;
      this.#given += taken.items.length;
      if (this.#given === this.#block) {
        this.#pass();
      }
    }
    return items.length === 0 ? null : { items, from, bytes };
  }

  #pass(): void {
    this.#turn = (this.#turn + 1) % this.#open.length;
    this.#given = 0;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([this.#elements.close(), ...this.#open.map((each) => each?.cursor.close())]);
  }

  #state(): Json {
    const open = this.#open.map((each) => (each === null ? null : ([each.element, each.cursor.state()] as const)));
    return [this.#elements.state(), open, this.#turn, this.#given] satisfies InterleaveState;
  }

  /** Initially opens a dataset for each place, so that all of these datasets read ahead. */
  async #begin(): Promise<void> {
    if (this.#hasBegun) {
      return;
    }
    this.#hasBegun = true;
    if (this.#stored === null) {
      for (let place = 0; place < this.#open.length && this.#hasMore; place++) {
        this.#open[place] = await this.#openNext();
      }
    }
    for (const [place, each] of (this.#stored ?? []).entries()) {
      if (each === null) {
        continue;
      }
      const [element, at] = each;
      const elements = this.#openElements(element);
      try {
        const { items } = await elements.take(1);
        this.#open[place] = await this.#openAt(element, items[0] as T, at);
      } finally {
        await elements.close();
      }
    }
  }

  async #openNext(): Promise<Open<U> | null> {
    if (!this.#hasMore) {
      return null;
    }
    const element = this.#elements.state();
    const { items } = await this.#elements.take(1);
    this.#hasMore = items.length > 0;
    if (!this.#hasMore) {
      return null;
    }
    return await this.#openAt(element, items[0] as T, null);
  }

  async #openAt(element: Json, value: T, at: Json): Promise<Open<U>> {
    const cursor = await this.#openDataset(value, at);
    disposeElement(value);
    if (this.#isClosed) {
      await cursor.close();
    }
    return { element, cursor };
  }
}
