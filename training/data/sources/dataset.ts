import type * as tfjs from '@tensorflow/tfjs';
import { wholeNumber } from '../../../platform/check-options.ts';
import { TonyError } from '../../../platform/errors.ts';
import { claimSplits } from '../reading/claimed-splits.ts';
import { dispatchNode } from '../reading/dispatched.ts';
import type { DatasetNode, SplitList } from '../reading/read-context.ts';
import { batchNode } from '../transforms/batch.ts';
import { CacheNode, type CacheOptions } from '../transforms/cache.ts';
import type { Batched } from '../transforms/collate.ts';
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

/**
 * Describes data that is read lazily when a program iterates over the dataset. The methods have the same names as in tf.data and return new
 * datasets. The same dataset, seed and epoch yield the same elements in the same order. When several ranks read a dataset (as in
 * `cluster.fit`), each element goes to one rank. The source distributes files, or individual records if there are fewer files than ranks.
 * Transformations process a rank's share; only `take`, `skip` and `shard` apply to the whole dataset.
 */
export class Dataset<T> implements AsyncIterable<T> {
  readonly node: DatasetNode<T>;
  /** True if each element is a batch of examples. */
  readonly isBatched: boolean;

  constructor(node: DatasetNode<T>, isBatched = false) {
    this.node = node;
    this.isBatched = isBatched;
  }

  /**
   * Converts each element and preserves the order.
   * @param options `parallelCalls`: the number of concurrent `convert` calls (1 by default).
   */
  map<U>(convert: (element: T) => U | Promise<U>, options: { readonly parallelCalls?: number } = {}): Dataset<U> {
    const calls = wholeNumber('parallelCalls', options.parallelCalls ?? 1);
    return this.#with(calls === 1 ? mapNode(this.node, convert) : parallelMapNode(this.node, convert, calls));
  }

  filter(keep: (element: T) => boolean | Promise<boolean>): Dataset<T> {
    return this.#with(filterNode(this.node, keep));
  }

  /** Replaces each element with any number of elements. */
  flatMap<U>(convert: (element: T) => Iterable<U> | Promise<Iterable<U>>): Dataset<U> {
    return this.#with(flatMapNode(this.node, convert));
  }

  /** Appends the elements of `others` to this dataset. */
  concatenate(...others: readonly Dataset<T>[]): Dataset<T> {
    const misfit = others.some(({ isBatched }) => isBatched !== this.isBatched);
    if (misfit) {
      throw new TonyError('DATA_INVALID', 'batched and unbatched datasets cannot be concatenated');
    }
    return this.#with(concatenateNode([this.node, ...others.map(({ node }) => node)]));
  }

  /**
   * Converts each element to an inner dataset and reads `cycleLength` inner datasets (4 by default) concurrently. Takes `blockLength`
   * elements (1 by default) from each in turn. Use it to read or mix several files. All elements of an inner dataset go to the same rank.
   * @param convert must return the same dataset each time it receives the same element.
   */
  interleave<U>(convert: (element: T) => Dataset<U> | Promise<Dataset<U>>, options: InterleaveOptions = {}): Dataset<U> {
    const { cycleLength = 4, blockLength = 1 } = options;
    const sizes = { cycleLength: wholeNumber('cycleLength', cycleLength), blockLength: wholeNumber('blockLength', blockLength) };
    return new Dataset(interleaveNode(this.node, async (element: T) => (await convert(element)).node, sizes));
  }

  /**
   * Combines `size` elements (on each rank) into a batch. Numbers and arrays become columns `{ values, shape }`, and strings and Buffers
   * become lists. Objects are batched field by field. The last batch may be smaller.
   */
  batch(size: number, options: { readonly dropRemainder?: boolean } = {}): Dataset<Batched<T>> {
    return new Dataset(batchNode(this.node, wholeNumber('batch size', size), options.dropRemainder ?? false), true);
  }

  /**
   * Like `batch`, for arrays of different lengths. Each array is padded to the longest array in the batch, or to the length in `shapes`:
   * `paddedBatch(32, { side: 'start', shapes: { xs: [100] } })`. Without `shapes`, the ranks may have batches of different lengths in one
   * step.
   */
  paddedBatch(size: number, options: PaddedBatchOptions = {}): Dataset<Batched<T>> {
    const prepare = (items: readonly T[]) => pad(items, options);
    return new Dataset(batchNode(this.node, wholeNumber('batch size', size), options.dropRemainder ?? false, prepare), true);
  }

  /**
   * Shuffles the file order, and shuffles elements in blocks of `bufferSize`. The order differs between epochs, but is the same in every
   * run. Keeps up to twice `bufferSize` elements in memory.
   * @param seed the seed; null, the default, uses the reader's seed (with `fit`, its `seed` option).
   * @param reshuffleEachIteration whether each epoch has a different order; true by default.
   */
  shuffle(bufferSize: number, seed: number | null = null, reshuffleEachIteration = true): Dataset<T> {
    return this.#with(shuffleNode(this.node, { bufferSize: wholeNumber('bufferSize', bufferSize), seed, reshuffleEachIteration }));
  }

  /** Repeats the dataset `times` times; endlessly by default. */
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

  /** Keeps every `shards`-th element of the whole dataset, starting with element number `index`. */
  shard(shards: number, index: number): Dataset<T> {
    wholeNumber('shards', shards);
    if (wholeNumber('shard', index, 0) >= shards) {
      throw new TonyError('DATA_INVALID', `there is no shard ${index} of ${shards}`);
    }
    return this.#with(shardNode(this.node, { index, count: shards }));
  }

  /**
   * Reads ahead while the program processes elements: up to `elements` elements and up to about `bytes` bytes of stored data (64 MiB by
   * default).
   */
  prefetch(elements: number, options: { readonly bytes?: number } = {}): Dataset<T> {
    const limits = { items: wholeNumber('prefetch', elements), bytes: wholeNumber('bytes', options.bytes ?? PREFETCH_BYTES) };
    return this.#with(prefetchNode(this.node, limits));
  }

  /**
   * Caches the elements of the first epoch for later epochs, in memory or, with `{ disk: true }`, in the container's folder. Each rank
   * caches its own share. Call `shuffle` after `cache`.
   */
  cache(options: CacheOptions = {}): Dataset<T> {
    return this.#with(new CacheNode(this.node, options));
  }

  /**
   * Assigns files, or the parts of splittable files, to readers on demand instead of in advance, so faster readers read more. The job's
   * ApplicationMaster assigns them. Each element is still used once per pass, even after restarts. `dispatch` has no effect if there are
   * fewer files (or parts) than readers. Reading fails with USAGE if the dataset also uses `cache`, `zip`, `sampleFrom`, `take`, `skip` or
   * `shard`, because a reader gets different elements in each pass. With `interleave`, only its outer elements are assigned on demand; the
   * files of the inner datasets are not.
   */
  dispatch(): Dataset<T> {
    return this.#with(dispatchNode(this.node));
  }

  /**
   * Starts reading: `for await (const element of dataset.read({ epoch: 3 }))`. The reader's `state()` can be stored as JSON at any time.
   * @throws TonyError NOT_FOUND, ACCESS_DENIED, HDFS_UNREACHABLE, DATA_INVALID, while elements are read.
   */
  read(options: ReadOptions = {}): DatasetReader<T> {
    return new DatasetReader(this.node, options);
  }

  /**
   * Returns the splits of the dataset's files, which are the same for every reader. `read({ split: 0 })` yields the elements of the first
   * split. The dataset must not use operations such as `shuffle`, `repeat`, `take`, `skip` and `shard`.
   * @throws TonyError NOT_FOUND, DATA_INVALID.
   */
  splits(options: Pick<ReadOptions, 'storage' | 'signal'> = {}): Promise<SplitList> {
    return splitsOf(this.node, options);
  }

  /**
   * Yields the numbers of the splits that this task must process, for `read({ split })`. Each split goes to one task of this role; outside
   * a job, all splits go to this program. Requesting the next split marks the current split as finished. The unfinished splits of a failed
   * task go to other tasks, and the loop ends when all splits are finished. In a role with ranks, each new generation starts again with all
   * splits.
   * @throws TonyError NOT_FOUND, DATA_INVALID.
   */
  async *claimSplits(options: Pick<ReadOptions, 'storage' | 'signal'> = {}): AsyncGenerator<number, void> {
    yield* claimSplits(await this.splits(options), options.signal ?? new AbortController().signal);
  }

  [Symbol.asyncIterator](): DatasetReader<T> {
    return this.read();
  }

  /** Reads all elements into memory; intended for small datasets. */
  async toArray(options: ReadOptions = {}): Promise<T[]> {
    const elements: T[] = [];
    for await (const element of this.read(options)) {
      elements.push(element);
    }
    return elements;
  }

  /**
   * Converts to a tf.data dataset, for `model.fitDataset` and `model.evaluateDataset`. Columns become tensors. Each new iterator reads the
   * next epoch.
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
    return new Dataset(node, this.isBatched);
  }
}
