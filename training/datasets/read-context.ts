import { TonyError } from '../../conf/errors.ts';
import type { Storage } from '../../storage/storage.ts';
import type { DispatchLog } from './dispatch-log.ts';
import type { ChunkStream, Json } from './stream.ts';

/** One of `count` shares of a dataset, which together hold each element once. */
export interface Share {
  readonly index: number;
  readonly count: number;
}

export const WHOLE: Share = { index: 0, count: 1 };

/** Reading split by split in place of shares: the source tells which splits there are, and gives the records of one of them. */
export interface SplitRead {
  /** null: none, they are only told. */
  readonly index: number | null;
  readonly onSplits: (splits: SplitList) => void;
}

/** The parts of a dataset's files in their order: the same ones for whoever asks, as long as the files are the same. */
export interface SplitList {
  /** Tells these files, with what is in them, from others. */
  readonly fingerprint: string;
  /** The records that begin in bytes `from` to `to` of a file. */
  readonly splits: readonly { readonly uri: string; readonly from: number; readonly to: number }[];
}

/** How often a dataset has been read before, from the outermost repetition to the innermost: each pass has an order of its own. */
export type Passes = readonly number[];

/** All that reading depends on beside the dataset's description: equal contexts give equal elements in equal order. */
export interface ReadContext {
  readonly storage: Storage;
  readonly share: Share;
  readonly split?: SplitRead;
  /** Files are given out on demand instead of being dealt out in advance. */
  readonly dispatch?: boolean;
  /** Which of them this reader has got; undefined where what is dispatched cannot be used. */
  readonly dispatchLog?: DispatchLog | undefined;
  /** What is read cannot be read again: where the reader stands is of no use to another one. */
  readonly onUnrepeatable?: () => void;
  /** Of what is dispatched others have got everything: that nothing came does not mean that there is nothing. */
  readonly onPassedOver?: () => void;
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

/** What to throw where splits cannot be given out on demand. */
export function undispatchable(): TonyError {
  return new TonyError('USAGE', 'dispatch() gives each reader other elements in each pass, which not every dataset can take', {
    hint: 'Leave cache(), zip(), sampleFrom(), take(), skip() and shard() out of a dataset with dispatch(), and dispatch() out of what interleave() opens.',
  });
}

/**
 * For a part whose elements have to be the same ones for all readers, or in all passes.
 * @throws TonyError USAGE where it is dispatched, as a whole or within.
 */
export function undispatched(context: ReadContext): ReadContext {
  if (context.dispatch === true) throw undispatchable();
  return { ...context, dispatchLog: undefined };
}

/** @throws TonyError DATA_INVALID where a dataset is read split by split, of which `method` cannot be a part. */
export function refuseSplits(context: ReadContext, method: string, why: string): void {
  if (context.split === undefined) return;
  throw new TonyError('DATA_INVALID', `a dataset with ${method} cannot be read split by split: ${why}`, {
    hint: `Leave ${method} out of the dataset.`,
  });
}
