import { TonyError } from '../../../platform/errors.ts';
import type { Json } from '../../../platform/json-value.ts';
import type { Storage } from '../../../storage/storage.ts';
import type { DispatchLog } from './dispatch-log.ts';
import type { Share } from './share.ts';
import type { ChunkStream } from './stream.ts';

/** Reads split by split instead of by share: the source reports its splits, and yields the records of one of them. */
export interface SplitRead {
  /** null: only reports the splits, without reading any. */
  readonly index: number | null;
  readonly onSplits: (splits: SplitList) => void;
}

/** The parts of a dataset's files, in order; equal for every caller as long as the files are unchanged. */
export interface SplitList {
  /** Identifies the files and their content. */
  readonly fingerprint: string;
  /** Each split contains the records that begin in bytes `from` to `to` of a file. */
  readonly splits: readonly { readonly uri: string; readonly from: number; readonly to: number }[];
}

/** The number of completed reads of a dataset, from the outermost repetition to the innermost: each pass has its own order. */
export type Passes = readonly number[];

/** Everything that reading depends on in addition to the dataset's description: equal contexts give equal elements in equal order. */
export interface ReadContext {
  readonly storage: Storage;
  readonly share: Share;
  readonly split?: SplitRead;
  /** Files are assigned on demand instead of in advance. */
  readonly dispatch?: boolean;
  /** The splits assigned to this reader; undefined where dispatched data cannot be used. */
  readonly dispatchLog?: DispatchLog | undefined;
  /** Called when the source cannot be read again: the position of the reader is then useless to another reader. */
  readonly onUnrepeatable?: () => void;
  /** Called when other readers received all dispatched splits: an empty result does not mean that the dataset is empty. */
  readonly onPassedOver?: () => void;
  readonly seed: number;
  readonly passes: Passes;
  /** The seed of the file order; null for the order of the listing. */
  readonly fileOrderSeed: number | null;
  /** Cancels all waits and closes open resources. */
  readonly signal: AbortSignal;
  /** Called for each damaged record that is skipped. */
  readonly onDamage: (damage: TonyError) => void;
  /** A message for users about something that only costs time. */
  readonly onNotice: (message: string) => void;
}

/** A building block of a dataset, readable from any of its positions. */
export interface DatasetNode<T> {
  open(context: ReadContext, from: Json): ChunkStream<T>;
}

/** The error for a dataset whose splits cannot be assigned on demand. */
export function undispatchable(): TonyError {
  return new TonyError('USAGE', 'dispatch() assigns different elements to each reader in each pass, which this dataset does not support', {
    hint: 'Remove cache(), zip(), sampleFrom(), take(), skip() and shard() from a dataset with dispatch(), and dispatch() from datasets that interleave() opens.',
  });
}

/**
 * The context for a part whose elements must be equal for all readers, or in all passes.
 * @throws TonyError USAGE if the part is dispatched, directly or within.
 */
export function undispatched(context: ReadContext): ReadContext {
  if (context.dispatch === true) {
    throw undispatchable();
  }
  return { ...context, dispatchLog: undefined };
}

/** @throws TonyError DATA_INVALID when a dataset with `method` is read split by split. */
export function refuseSplits(context: ReadContext, method: string, why: string): void {
  if (context.split === undefined) {
    return;
  }
  throw new TonyError('DATA_INVALID', `a dataset with ${method} cannot be read split by split: ${why}`, {
    hint: `Remove ${method} from the dataset.`,
  });
}
