import type { Json } from '../../../platform/json-value.ts';
import { createRandom } from '../../../platform/random.ts';
import { Cursor } from '../reading/cursor.ts';
import { type DatasetNode, refuseSplits, undispatched } from '../reading/read-context.ts';
import { CHUNK_ELEMENTS, type Chunk, type ChunkStream } from '../reading/stream.ts';

export interface SampleOptions {
  /** Relative frequency of each dataset. Default: equal frequencies. */
  readonly weights?: readonly number[];
  /** Seed for the random selection. Default: the reader's seed. */
  readonly seed?: number;
}

/**
 * Mixes the elements of several datasets until all datasets have ended. The weights determine how likely each element is to come from each
 * dataset. The readers divide each dataset.
 *
 * State: the chunk number, which determines the random numbers, and the position in each dataset, or null if the dataset has ended.
 */
export function sampleNode<T>(inner: readonly DatasetNode<T>[], weights: readonly number[], seed: number | null): DatasetNode<T> {
  return {
    open(context, from) {
      refuseSplits(context, 'sampleFrom', 'it mixes elements of several datasets');
      // The readers would begin the passes of dispatched datasets in different orders, because each reader selects differently.
      // `undispatched` therefore rejects dispatched datasets.
      const own = undispatched(context);
      const [chunk, places] = (from ?? [0, inner.map(() => [null])]) as [number, readonly (readonly [Json] | null)[]];
      const parts = inner.map((node, index): Part<T> => {
        const place = places[index] ?? null;
        return { weight: weights[index] as number, cursor: place && new Cursor((at) => node.open(own, at), place[0]) };
      });
      const random = (number: number) => createRandom(seed ?? context.seed, ...context.passes, context.share.index, number);
      return new SampledStream(parts, random, chunk);
    },
  };
}

interface Part<T> {
  readonly weight: number;
  cursor: Cursor<T> | null;
}

class SampledStream<T> implements ChunkStream<T> {
  readonly #parts: readonly Part<T>[];
  readonly #random: (chunk: number) => () => number;
  #chunk: number;

  constructor(parts: readonly Part<T>[], random: (chunk: number) => () => number, chunk: number) {
    this.#parts = parts;
    this.#random = random;
    this.#chunk = chunk;
  }

  async next(): Promise<Chunk<T> | null> {
    const from = [this.#chunk, this.#parts.map(({ cursor }) => (cursor === null ? null : [cursor.state()]))];
    const random = this.#random(this.#chunk);
    const items: T[] = [];
    let bytes = 0;
    while (items.length < CHUNK_ELEMENTS) {
      const part = this.#draw(random());
      if (part === null) {
        break;
      }
      const taken = await (part.cursor as Cursor<T>).take(1);
      if (taken.items.length === 0) {
        await part.cursor?.close();
        part.cursor = null;
        continue;
      }
      items.push(taken.items[0] as T);
      bytes += taken.bytes;
    }
    this.#chunk++;
    return items.length === 0 ? null : { items, from, bytes };
  }

  #draw(number: number): Part<T> | null {
    const open = this.#parts.filter(({ cursor, weight }) => cursor !== null && weight > 0);
    let rest = number * open.reduce((sum, { weight }) => sum + weight, 0);
    for (const part of open) {
      rest -= part.weight;
      if (rest < 0) {
        return part;
      }
    }
    return open.at(-1) ?? null;
  }

  async close(): Promise<void> {
    await Promise.all(this.#parts.map(({ cursor }) => cursor?.close()));
  }
}
