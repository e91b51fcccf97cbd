import { TonyError } from '../../../platform/errors.ts';
import type { Json } from '../../../platform/json-value.ts';
import type { Storage } from '../../../storage/storage.ts';
import type { DispatchLog } from './dispatch-log.ts';
import type { Share } from './share.ts';
import type { ChunkStream } from './stream.ts';

/** Makes a source read one split instead of a share: the source reports its splits and yields the records of the chosen split. */
export interface SplitRead {
  /** The number of the split to read; null to report the splits only. */
  readonly index: number | null;
  readonly onSplits: (splits: SplitList) => void;
}

/** The splits of a dataset's files, in order. Every caller gets the same list as long as the files are unchanged. */
export interface SplitList {
  /** Identifies the files and their content. */
  readonly fingerprint: string;
  /** Each split contains the records that begin in bytes `from` to `to` of a file. */
  readonly splits: readonly { readonly uri: string; readonly from: number; readonly to: number }[];
}

/**
 * The epoch, followed by the number of completed passes of each enclosing `repeat`, from the outermost to the innermost. These numbers
 * determine the order of the elements in the current pass.
 */
export type Passes = readonly number[];

/** The parameters of a read. The same dataset and the same context yield the same elements in the same order. */
export interface ReadContext {
  readonly storage: Storage;
  readonly share: Share;
  readonly split?: SplitRead;
  /** Files are assigned on demand instead of in advance. */
  readonly dispatch?: boolean;
  /** The splits assigned to this reader; undefined within operations that do not support dispatched data. */
  readonly dispatchLog?: DispatchLog | undefined;
  /** Called by a source that cannot be read twice. The position of such a reader cannot be stored. */
  readonly onUnrepeatable?: () => void;
  /** Called when other readers have received all dispatched splits. This reader yields no elements, although the dataset is not empty. */
  readonly onPassedOver?: () => void;
  readonly seed: number;
  readonly passes: Passes;
  /** The seed of the file order; null for the order of the listing. */
  readonly fileOrderSeed: number | null;
  /** When it aborts, the stream stops waiting and closes its resources. */
  readonly signal: AbortSignal;
  /** Called for each damaged record that is skipped. */
  readonly onDamage: (damage: TonyError) => void;
  /** Reports to the user a problem that slows reading down but does not change the result. */
  readonly onNotice: (message: string) => void;
}

/** A building block of a dataset, readable from any of its positions. */
export interface DatasetNode<T> {
  open(context: ReadContext, from: Json): ChunkStream<T>;
}

/** Creates the error for a dataset whose splits cannot be assigned on demand. */
export function undispatchable(): TonyError {
  return new TonyError('USAGE', 'dispatch() gives a reader different elements in each pass, which this dataset does not support', {
    hint: 'Do not combine dispatch() with cache(), zip(), sampleFrom(), take(), skip() or shard(), nor use it within interleave().',
  });
}

/**
 * Returns the context for an inner dataset that must yield the same elements to all readers, or in all passes.
 * @throws TonyError USAGE if the outer dataset is dispatched.
 */
export function undispatched(context: ReadContext): ReadContext {
  if (context.dispatch === true) {
    throw undispatchable();
  }
  return { ...context, dispatchLog: undefined };
}

/** @throws TonyError DATA_INVALID when the dataset is read split by split, which `method` does not support. */
export function refuseSplits(context: ReadContext, method: string, why: string): void {
  if (context.split === undefined) {
    return;
  }
  throw new TonyError('DATA_INVALID', `a dataset with ${method} cannot be read split by split: ${why}`, {
    hint: `Remove ${method} from the dataset.`,
  });
}
