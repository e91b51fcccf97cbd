import type * as tfjs from '@tensorflow/tfjs';
import {
  checkOptionValues,
  isAnything,
  isFiniteNumber,
  isFlag,
  isFunction,
  isObject,
  isOneOf,
  isText,
  isWhole,
  type OptionRules,
  wholeNumber,
} from '../../../platform/check-options.ts';
import { TonyError } from '../../../platform/errors.ts';
import { describeValue } from '../../../platform/text/describe-value.ts';
import { claimSplits } from '../reading/claimed-splits.ts';
import { dispatchNode } from '../reading/dispatched.ts';
import type { DatasetNode, EpochLimit, SplitList } from '../reading/read-context.ts';
import { batchNode } from '../transforms/batch.ts';
import { CacheNode, type CacheOptions } from '../transforms/cache.ts';
import { type Batched, collate } from '../transforms/collate.ts';
import { concatenateNode } from '../transforms/concatenate.ts';
import { type InterleaveOptions, interleaveNode } from '../transforms/interleave.ts';
import { filterNode, flatMapNode, mapNode, parallelMapNode } from '../transforms/map.ts';
import { type PaddedBatchOptions, pad } from '../transforms/pad.ts';
import { prefetchNode } from '../transforms/prefetch.ts';
import { repeatNode } from '../transforms/repeat.ts';
import { shuffleNode } from '../transforms/shuffle.ts';
import { shardNode, sliceNode } from '../transforms/take.ts';
import { toTensors } from '../transforms/tensors.ts';
import { DatasetReader, type ReadOptions, splitsOf } from './dataset-reader.ts';

const PREFETCH_BYTES = 64 * 1024 * 1024;

const PADDED_BATCH: OptionRules<PaddedBatchOptions> = {
  value: isFiniteNumber,
  side: isOneOf('end', 'start'),
  shapes: isObject,
  dropRemainder: isFlag,
};
const CACHE: OptionRules<CacheOptions> = { disk: isFlag, maxBytes: isWhole(0), folder: isText };
const READ: OptionRules<ReadOptions> = {
  storage: isObject,
  share: isObject,
  split: isWhole(0),
  seed: isWhole(0),
  epoch: isWhole(0),
  missedPasses: isWhole(0),
  state: isAnything,
  states: isAnything,
  signal: isObject,
  lists: isObject,
  splits: isObject,
  stream: isObject,
  onDamage: isFunction,
  onNotice: isFunction,
};

/**
 * A sequence of elements that is read only when a program iterates over it. Its methods have the same names as in tf.data, and each returns
 * a new dataset. The same dataset, seed and epoch yield the same elements in the same order.
 *
 * If several ranks read a dataset, as in `cluster.fit`, each element goes to one rank. The ranks divide the files or, if there are too few,
 * the records. Transformations apply to each rank's share. Only `take`, `skip` and `shard` apply to the whole dataset.
 */
export class Dataset<T> implements AsyncIterable<T> {
  readonly node: DatasetNode<T>;
  /** True if the elements are batches of examples. */
  readonly isBatched: boolean;
  /** Null if the dataset can be read any number of times. */
  readonly epochLimit: EpochLimit | null;

  constructor(node: DatasetNode<T>, isBatched = false, epochLimit: EpochLimit | null = null) {
    this.node = node;
    this.isBatched = isBatched;
    this.epochLimit = epochLimit;
  }

  /**
   * Converts each element. Keeps the element order.
   * @param options `parallelCalls` is the number of elements to convert concurrently. Default: 1.
   */
  map<U>(convert: (element: T) => U | Promise<U>, options: { readonly parallelCalls?: number } = {}): Dataset<U> {
    checkOptionValues('map', options, { parallelCalls: isWhole(1) });
    mustBeFunction('map', convert);
    const calls = wholeNumber('parallelCalls', options.parallelCalls ?? 1);
    return this.#with(calls === 1 ? mapNode(this.node, convert) : parallelMapNode(this.node, convert, calls));
  }

  filter(keep: (element: T) => boolean | Promise<boolean>): Dataset<T> {
    mustBeFunction('filter', keep);
    return this.#with(filterNode(this.node, keep));
  }

  /** Converts each element to any number of elements. */
  flatMap<U>(convert: (element: T) => Iterable<U> | Promise<Iterable<U>>): Dataset<U> {
    mustBeFunction('flatMap', convert);
    return this.#with(flatMapNode(this.node, convert));
  }

  /** Appends other datasets to this one. */
  concatenate(...others: readonly Dataset<T>[]): Dataset<T> {
    const nodes = others.map((other) => nodeOf(other, 'concatenate received'));
    const misfit = others.some(({ isBatched }) => isBatched !== this.isBatched);
    if (misfit) {
      throw new TonyError('USAGE', 'batched and unbatched datasets cannot be concatenated');
    }
    return this.#with(concatenateNode([this.node, ...nodes]));
  }

  /**
   * Converts each element to an inner dataset, and reads several inner datasets concurrently, for example to mix the records of several
   * files. `cycleLength` is the number of inner datasets to read at a time (default: 4). `blockLength` is the number of elements to take
   * from each of them in turn (default: 1). All elements of an inner dataset go to the same rank.
   * @param convert must always return the same dataset for the same element.
   */
  interleave<U>(convert: (element: T) => Dataset<U> | Promise<Dataset<U>>, options: InterleaveOptions = {}): Dataset<U> {
    checkOptionValues('interleave', options, { cycleLength: isWhole(1), blockLength: isWhole(1) });
    mustBeFunction('interleave', convert);
    const { cycleLength = 4, blockLength = 1 } = options;
    const sizes = { cycleLength: wholeNumber('cycleLength', cycleLength), blockLength: wholeNumber('blockLength', blockLength) };
    return new Dataset(
      interleaveNode(this.node, async (element: T) => nodeOf(await convert(element), 'the function of interleave returned'), sizes),
    );
  }

  /**
   * Combines `size` elements into a batch, on each rank separately. Numbers and arrays become columns `{ values, shape }`. Strings and
   * Buffers become lists. Objects are batched field by field. The last batch may be smaller.
   */
  batch(size: number, options: { readonly dropRemainder?: boolean } = {}): Dataset<Batched<T>> {
    checkOptionValues('batch', options, { dropRemainder: isFlag });
    const [elements, dropRemainder] = [wholeNumber('batch size', size), options.dropRemainder ?? false];
    const batched = this.node.batched?.(elements, dropRemainder) as DatasetNode<Batched<T>> | undefined;
    return new Dataset(batched ?? batchNode(this.node, elements, dropRemainder), true, this.epochLimit);
  }

  /**
   * Combines elements with arrays of different lengths into batches. Each array is padded to the length of the longest array in its batch,
   * or to the length in `shapes`, for example `paddedBatch(32, { side: 'start', shapes: { xs: [100] } })`. Without `shapes`, arrays on
   * different ranks may have different lengths in the same step.
   */
  paddedBatch(size: number, options: PaddedBatchOptions = {}): Dataset<Batched<T>> {
    checkOptionValues('paddedBatch', options, PADDED_BATCH);
    const combine = (items: readonly T[], first: number) => collate(pad(items, options, first), first);
    const node = batchNode(this.node, wholeNumber('batch size', size), options.dropRemainder ?? false, combine);
    return new Dataset(node, true, this.epochLimit);
  }

  /**
   * Shuffles the file order, and shuffles the elements in blocks of `bufferSize`. The order differs between epochs, but is the same in
   * every run. Up to twice `bufferSize` elements are in memory at a time.
   * @param seed Default: the reader's seed, which is the `seed` option in `fit`.
   * @param reshuffleEachIteration whether the order differs between epochs. Default: true.
   */
  shuffle(bufferSize: number, seed: number | null = null, reshuffleEachIteration = true): Dataset<T> {
    return this.#with(shuffleNode(this.node, { bufferSize: wholeNumber('bufferSize', bufferSize), seed, reshuffleEachIteration }));
  }

  /** Repeats the dataset. By default, repeats it endlessly. */
  repeat(times = Number.POSITIVE_INFINITY): Dataset<T> {
    return this.#with(repeatNode(this.node, times === Number.POSITIVE_INFINITY ? times : wholeNumber('repeat', times, 0)));
  }

  /** Keeps only the first elements of the whole dataset. */
  take(elements: number): Dataset<T> {
    return this.#with(sliceNode(this.node, 0, wholeNumber('take', elements, 0)));
  }

  /** Skips the first elements of the whole dataset. */
  skip(elements: number): Dataset<T> {
    return this.#with(sliceNode(this.node, wholeNumber('skip', elements, 0), Number.POSITIVE_INFINITY));
  }

  /**
   * Keeps every `count`-th element of the whole dataset, starting with element number `index`, for example `shard(cluster.share)`.
   * @throws TonyError USAGE if there is no such share.
   */
  shard(share: { readonly index: number; readonly count: number }): Dataset<T> {
    if (typeof share !== 'object' || share === null) {
      throw new TonyError('USAGE', `shard needs { index, count }, found ${describeValue(share)}`, { hint: 'Write shard(cluster.share).' });
    }
    const { index, count } = share;
    wholeNumber('count of shard', count);
    if (wholeNumber('index of shard', index, 0) >= count) {
      throw new TonyError('USAGE', `there is no shard ${index}: the shards are numbered from 0 to ${count - 1}`);
    }
    return this.#with(shardNode(this.node, { index, count }));
  }

  /**
   * Reads ahead while the program processes elements. Stops reading at `elements` elements, or at about `bytes` bytes of stored data
   * (default: 64 MiB).
   */
  prefetch(elements: number, options: { readonly bytes?: number } = {}): Dataset<T> {
    const limits = { items: wholeNumber('prefetch', elements), bytes: wholeNumber('bytes', options.bytes ?? PREFETCH_BYTES) };
    return this.#with(prefetchNode(this.node, limits));
  }

  /**
   * Caches the elements of the first epoch for later epochs. The cache is in memory or, with `{ disk: true }`, in the container's folder.
   * Each rank caches its own share. Call `shuffle` after `cache`, or the order stays the same in all epochs.
   */
  cache(options: CacheOptions = {}): Dataset<T> {
    checkOptionValues('cache', options, CACHE);
    return this.#with(new CacheNode(this.node, options));
  }

  /**
   * Assigns files to readers on demand instead of in advance, so that faster readers read more. Files that can be split are assigned in
   * parts. The job's ApplicationMaster assigns them. Each element is still used once per pass, even after a restart. `dispatch` has no
   * effect if there are fewer files or parts than readers.
   *
   * Readers get different elements in each pass. Reading therefore fails with USAGE if the dataset also uses `cache`, `zip`, `sampleFrom`,
   * `take`, `skip` or `shard`. With `interleave`, only the outer elements are assigned on demand, not the inner datasets' files.
   */
  dispatch(): Dataset<T> {
    return this.#with(dispatchNode(this.node));
  }

  /**
   * Starts to read the dataset, for example `for await (const element of dataset.read({ epoch: 3 }))`. A program can store the reader's
   * `state()` as JSON at any time.
   * @throws TonyError NOT_FOUND, ACCESS_DENIED, HDFS_UNREACHABLE or DATA_INVALID, while elements are read.
   */
  read(options: ReadOptions = {}): DatasetReader<T> {
    checkOptionValues('read', options, READ);
    return new DatasetReader(this.node, options);
  }

  /**
   * Returns the splits of the dataset's files. Every caller gets the same list, and `read({ split: 0 })` yields the elements of the first
   * split. The dataset must not use operations such as `shuffle`, `repeat`, `take`, `skip` and `shard`.
   * @throws TonyError NOT_FOUND, DATA_INVALID.
   */
  splits(options: Pick<ReadOptions, 'storage' | 'signal' | 'lists'> = {}): Promise<SplitList> {
    return splitsOf(this.node, options);
  }

  /**
   * Yields the numbers of the splits that this task must process with `read({ split })`. Each split goes to one task of the role.
   * Requesting the next split marks the current one as finished. Splits left unfinished by a failed task go to other tasks. Ends when all
   * splits are finished.
   *
   * Outside a job, yields all splits. In a role with ranks, each new generation starts over with all splits.
   * @throws TonyError NOT_FOUND, DATA_INVALID.
   */
  async *claimSplits(options: Pick<ReadOptions, 'storage' | 'signal' | 'lists'> = {}): AsyncGenerator<number, void> {
    yield* claimSplits(await this.splits(options), options.signal ?? new AbortController().signal);
  }

  [Symbol.asyncIterator](): DatasetReader<T> {
    return this.read();
  }

  /** Reads all elements into memory. Suitable for small datasets. */
  async toArray(options: ReadOptions = {}): Promise<T[]> {
    const elements: T[] = [];
    for await (const element of this.read(options)) {
      elements.push(element);
    }
    return elements;
  }

  /**
   * Converts the dataset to a tf.data dataset, for `model.fitDataset` and `model.evaluateDataset`. Columns become tensors. Each new
   * iterator reads the next epoch.
   */
  toTfDataset(tf: typeof tfjs, options: Omit<ReadOptions, 'state'> = {}): tfjs.data.Dataset<tfjs.TensorContainer> {
    let epoch = options.epoch ?? 0;
    return tf.data.generator(() => {
      const reader = this.read({ ...options, epoch: epoch++ });
      return {
        next: async () => {
          const { done, value } = await reader.next();
          return done ? { done: true, value: undefined } : { done: false, value: toTensors(tf, value) };
        },
      } as unknown as Iterator<tfjs.TensorContainer>;
    });
  }

  #with<U>(node: DatasetNode<U>): Dataset<U> {
    return new Dataset(node, this.isBatched, this.epochLimit);
  }
}

function mustBeFunction(method: string, value: unknown): void {
  if (typeof value !== 'function') {
    throw new TonyError('USAGE', `${method} received ${describeValue(value)} instead of a function`);
  }
}

/**
 * Returns the node of a dataset that the program has passed or returned.
 * @param what begins the error message.
 * @throws TonyError DATA_INVALID if the value is not a dataset.
 */
export function nodeOf<T>(dataset: Dataset<T>, what: string): DatasetNode<T> {
  if (!(dataset instanceof Dataset)) {
    throw new TonyError('DATA_INVALID', `${what} ${describeValue(dataset)} instead of a dataset`, {
      hint: 'Create datasets with functions such as lines(), fromArray() or fromTfDataset().',
    });
  }
  return dataset.node;
}
