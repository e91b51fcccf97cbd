import { TonyError } from '../../../platform/errors.ts';
import type { Json } from '../../../platform/json-value.ts';
import type { Storage } from '../../../storage/storage.ts';
import type { DispatchLog } from './dispatch-log.ts';
import type { Share } from './share.ts';
import type { ChunkStream } from './stream.ts';

/** Makes a source report its splits and yield the records of one split instead of a share. */
export interface SplitRead {
  /** The number of the split to read; null to report the splits without reading. */
  readonly index: number | null;
  readonly onSplits: (splits: SplitList) => void;
}

/** The splits of a dataset's files, in order. The list is the same for every caller while the files are unchanged. */
export interface SplitList {
  readonly fingerprint: string;
  /** Each split contains the records that begin in bytes `from` to `to` (exclusive) of a file. */
  readonly splits: readonly { readonly uri: string; readonly from: number; readonly to: number }[];
}

/**
 * The epoch, followed by the number of completed passes of each enclosing `repeat`, from the outermost to the innermost. These numbers
 * determine the element order in the current pass.
 */
export type Passes = readonly number[];

/** The parameters of a read. The same dataset and context yield the same elements in the same order. */
export interface ReadContext {
  readonly storage: Storage;
  readonly share: Share;
  readonly split?: SplitRead;
  readonly dispatch?: boolean;
  /** The splits assigned to this reader; undefined within operations that do not support dispatched data. */
  readonly dispatchLog?: DispatchLog | undefined;
  /** A source calls this function if it cannot be read twice. The reader's position then cannot be stored. */
  readonly onUnrepeatable?: () => void;
  /**
   * A source calls this function when other readers have received all dispatched splits. This reader then yields no elements, although the
   * dataset is not empty.
   */
  readonly onPassedOver?: () => void;
  readonly seed: number;
  readonly passes: Passes;
  /** The seed of the file order; null to keep the listing order. */
  readonly fileOrderSeed: number | null;
  /** Aborts reading. The stream stops waiting and closes its resources. */
  readonly signal: AbortSignal;
  readonly onDamage: (damage: TonyError) => void;
  /** Reports a problem that slows reading down without changing the result. */
  readonly onNotice: (message: string) => void;
}

/** A building block of a dataset. It can be opened at any of its positions. */
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

/**
 * Rejects contexts that select a single split.
 * @throws TonyError DATA_INVALID when the context selects a split, which `method` does not support.
 */
export function refuseSplits(context: ReadContext, method: string, why: string): void {
  if (context.split === undefined) {
    return;
  }
  throw new TonyError('DATA_INVALID', `a dataset with ${method} cannot be read split by split: ${why}`, {
    hint: `Remove ${method} from the dataset.`,
  });
}
