import type { TonyError } from '../../conf/errors.ts';
import type { Storage } from '../../storage/storage.ts';
import type { ChunkStream, Json } from './stream.ts';

/** One of `count` shares of a dataset, which together hold each element once. */
export interface Share {
  readonly index: number;
  readonly count: number;
}

export const WHOLE: Share = { index: 0, count: 1 };

/** How often a dataset has been read before, from the outermost repetition to the innermost: each pass has an order of its own. */
export type Passes = readonly number[];

/** All that reading depends on beside the dataset's description: equal contexts give equal elements in equal order. */
export interface ReadContext {
  readonly storage: Storage;
  readonly share: Share;
  readonly seed: number;
  readonly passes: Passes;
  /** The seed of the order in which files are read; null: as they are listed. */
  readonly fileOrderSeed: number | null;
  /** Ends all waiting and closes what is open. */
  readonly signal: AbortSignal;
  /** Told of each record that is skipped because it is damaged. */
  readonly onDamage: (damage: TonyError) => void;
  /** For people: something that costs time, but nothing else. */
  readonly onNotice: (message: string) => void;
}

/** What a dataset is made of: something that can be read from any place in it. */
export interface DatasetNode<T> {
  open(context: ReadContext, from: Json): ChunkStream<T>;
}
