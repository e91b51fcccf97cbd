import { TonyError } from '../../../platform/errors.ts';
import type { Json } from '../../../platform/json-value.ts';
import { describeValue } from '../../../platform/text/describe-value.ts';
import type { Storage } from '../../../storage/storage.ts';
import type { DispatchLog } from './dispatch-log.ts';
import type { FileChecks } from './file-checks.ts';
import type { InputLists } from './input-lists.ts';
import type { Share } from './share.ts';
import type { ChunkStream } from './stream.ts';
import type { StreamPlace } from './stream-place.ts';

/** A request to list a source's splits, or to yield one split's records instead of a share's. */
export interface SplitRead {
  /** Number of the split to read, or null to list the splits without reading. */
  readonly index: number | null;
  readonly onSplits: (splits: SplitList) => void;
}

/** The splits of a dataset's files, in order. Every caller gets the same list, as long as the files do not change. */
export interface SplitList {
  readonly fingerprint: string;
  /** Splits, each of which contains the records that begin in bytes `from` to `to` (exclusive) of a file. */
  readonly splits: readonly { readonly uri: string; readonly from: number; readonly to: number }[];
}

/**
 * The epoch number, followed by the number of passes that each enclosing `repeat` has completed, beginning with the outermost one. These
 * numbers determine the element order.
 */
export type Passes = readonly number[];

/** Read parameters. The same dataset with the same parameters yields the same elements in the same order. */
export interface ReadContext {
  readonly storage: Storage;
  readonly share: Share;
  readonly split?: SplitRead;
  /** The lists of files that all readers share. Default: the job's lists. */
  readonly lists?: InputLists;
  /** Verifies that files are the listed ones. Undefined if the storage itself verifies them. */
  readonly checks?: FileChecks | undefined;
  readonly dispatch?: boolean;
  /** Splits that this reader has received. Undefined within operations that do not support dispatched data. */
  readonly dispatchLog?: DispatchLog | undefined;
  /** The place in a stream of Spark. Undefined if the reader does not save it in checkpoints. */
  readonly stream?: StreamPlace | undefined;
  /** Called by a source that cannot be read twice. The reader's position then cannot be stored. */
  readonly onUnrepeatable?: () => void;
  /**
   * Called by a source if other readers have received all splits of the pass. Tells `repeat` that the dataset is not empty, although this
   * reader gets no elements.
   */
  readonly onPassedOver?: () => void;
  readonly seed: number;
  readonly passes: Passes;
  /**
   * Number of earlier passes that another process has read. A source that counts its own passes, such as a tf.data dataset, must repeat
   * them. Default: 0.
   */
  readonly missedPasses?: number;
  /** Seed for the file order, or null to keep the order in which the files are listed. */
  readonly fileOrderSeed: number | null;
  /** Aborts reading. The stream then stops waiting and closes its files and connections. */
  readonly signal: AbortSignal;
  readonly onDamage: (damage: TonyError) => void;
  /** Receives messages about problems that only slow down reading. */
  readonly onNotice: (message: string) => void;
}

/** A step in a dataset, for example a source or a transformation. It can start from any of its positions. */
export interface DatasetNode<T> {
  open(context: ReadContext, from: Json): ChunkStream<T>;
  /** Returns a node with the same batches as `batchNode`, for a source that creates batches faster than elements. */
  readonly batched?: (size: number, dropRemainder: boolean) => DatasetNode<unknown>;
}

/** The number of passes in which a dataset can be read, if its source sets the number. */
export interface EpochLimit {
  /** The source, for error messages. */
  readonly source: string;
  /** Returns the number of passes, or Infinity if the source ends at an unknown time. May wait for the source. */
  readonly count: (signal: AbortSignal) => Promise<number>;
}

/** Returns the error for a dataset whose splits cannot be assigned on demand. */
export function undispatchable(): TonyError {
  return new TonyError('USAGE', 'dispatch() gives a reader different elements in each pass, which this dataset does not support', {
    hint: 'Do not combine dispatch() with cache(), zip(), sampleFrom(), take(), skip() or shard(), and do not use it within interleave().',
  });
}

/**
 * Returns a context for an inner dataset that must yield the same elements to all readers or in all passes.
 * @throws TonyError USAGE if the dataset is dispatched.
 */
export function undispatched(context: ReadContext): ReadContext {
  if (context.dispatch === true) {
    throw undispatchable();
  }
  return { ...context, dispatchLog: undefined };
}

/**
 * Throws if the context selects a single split, because `method` does not support splits.
 * @throws TonyError DATA_INVALID
 */
export function refuseSplits(context: ReadContext, method: string, why: string): void {
  if (context.split === undefined) {
    return;
  }
  throw new TonyError('DATA_INVALID', `a dataset with ${method} cannot be read split by split: ${why}`, {
    hint: `Remove ${method} from the dataset.`,
  });
}

/**
 * Checks a list of elements that the program has passed or returned.
 * @param what begins the error message.
 * @param ways the symbols of the methods that can iterate over the value.
 * @throws TonyError DATA_INVALID if the value has none of these methods.
 */
export function checkIterable(value: unknown, what: string, ways: readonly symbol[]): void {
  if (value === null || value === undefined || !ways.some((way) => way in Object(value))) {
    throw new TonyError('DATA_INVALID', `${what} ${describeValue(value)} instead of a list of elements`, {
      hint: 'Return an array or a generator, for example from `function* () { yield element; }`.',
    });
  }
}
