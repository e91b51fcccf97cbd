import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../../conf/errors.ts';
import { BatchNode } from './batch.ts';
import { CacheNode, type CacheOptions } from './cache.ts';
import { claimSplits } from './claimed-splits.ts';
import type { Batched } from './collate.ts';
import { ConcatenateNode } from './concatenate.ts';
import { DatasetReader, type ReadOptions, splitsOf } from './dataset-reader.ts';
import { DispatchNode } from './dispatched.ts';
import { InterleaveNode, type InterleaveOptions } from './interleave.ts';
import { filterNode, flatMapNode, mapNode, ParallelMapNode } from './map.ts';
import { type PaddedBatchOptions, pad } from './pad.ts';
import { PrefetchNode } from './prefetch.ts';
import type { DatasetNode, SplitList } from './read-context.ts';
import { RepeatNode } from './repeat.ts';
import { ShuffleNode } from './shuffle.ts';
import { ShardNode, SliceNode } from './take.ts';
import { toTensors } from './tensors.ts';

const PREFETCH_BYTES = 64 * 1024 * 1024;

/**
 * A description of data that is read only when it is looped over, and as far as the loop goes. Its methods give new descriptions and are named
 * as those of tf.data. The same description, seed and epoch give the same elements in the same order each time.
 *
 * Read by several ranks (`cluster.fit` does it), each element goes to one of them: the source deals out files, or records when there are fewer
 * files than ranks; what is put behind it works on each rank's share. `take`, `skip` and `shard` count elements of the whole.
 */
export class Dataset<T> implements AsyncIterable<T> {
  readonly node: DatasetNode<T>;
  /** Each element holds a batch of examples. */
  readonly isBatched: boolean;

  constructor(node: DatasetNode<T>, isBatched = false) {
    this.node = node;
    this.isBatched = isBatched;
  }

  /** @param options `parallelCalls`: so many conversions at a time (1 unless told); the order of the elements stays. */
  map<U>(convert: (element: T) => U | Promise<U>, options: { readonly parallelCalls?: number } = {}): Dataset<U> {
    const calls = count('parallelCalls', options.parallelCalls ?? 1, 1);
    return this.#with(calls === 1 ? mapNode(this.node, convert) : new ParallelMapNode(this.node, convert, calls));
  }

  filter(keep: (element: T) => boolean | Promise<boolean>): Dataset<T> {
    return this.#with(filterNode(this.node, keep));
  }

  /** Any number of elements in place of each. */
  flatMap<U>(convert: (element: T) => Iterable<U> | Promise<Iterable<U>>): Dataset<U> {
    return this.#with(flatMapNode(this.node, convert));
  }

  /** These elements, then those of the others. */
  concatenate(...others: readonly Dataset<T>[]): Dataset<T> {
    const misfit = others.some(({ isBatched }) => isBatched !== this.isBatched);
    if (misfit) throw new TonyError('DATA_INVALID', 'a dataset of batches and one of single elements cannot be concatenated');
    return this.#with(new ConcatenateNode([this.node, ...others.map(({ node }) => node)]));
  }

  /**
   * A dataset for each element, `cycleLength` of them (4 unless told) read at a time, `blockLength` elements (1 unless told) of each in
   * turn: to read several files beside each other, or to mix them. What is made of one element goes to one rank.
   * @param convert must make the same dataset of an element each time.
   */
  interleave<U>(convert: (element: T) => Dataset<U> | Promise<Dataset<U>>, options: InterleaveOptions = {}): Dataset<U> {
    const { cycleLength = 4, blockLength = 1 } = options;
    const sizes = { cycleLength: count('cycleLength', cycleLength, 1), blockLength: count('blockLength', blockLength, 1) };
    return new Dataset(new InterleaveNode(this.node, async (element: T) => (await convert(element)).node, sizes));
  }

  /**
   * `size` elements together (on each rank): numbers and arrays become columns `{ values, shape }`, texts and Buffers lists, objects are batched
   * field by field. The last batch may be smaller.
   */
  batch(size: number, options: { readonly dropRemainder?: boolean } = {}): Dataset<Batched<T>> {
    return new Dataset(new BatchNode(this.node, count('batch size', size, 1), options.dropRemainder ?? false), true);
  }

  /**
   * As `batch`, for arrays of different lengths: each is filled up to the length of the longest one in its batch, or to that of `shapes`.
   * `paddedBatch(32, { side: 'start', shapes: { xs: [100] } })`. (Ranks may have batches of different lengths in one step.)
   */
  paddedBatch(size: number, options: PaddedBatchOptions = {}): Dataset<Batched<T>> {
    const prepare = (items: readonly T[]) => pad(items, options);
    return new Dataset(new BatchNode(this.node, count('batch size', size, 1), options.dropRemainder ?? false, prepare), true);
  }

  /**
   * Files in another order, and elements mixed `bufferSize` at a time; an order for each epoch, the same in every run. Up to twice `bufferSize`
   * elements are in memory.
   * @param seed the reader's (`fit`'s) unless told.
   * @param reshuffleEachIteration another order in each epoch; true unless told.
   */
  shuffle(bufferSize: number, seed: number | null = null, reshuffleEachIteration = true): Dataset<T> {
    return this.#with(new ShuffleNode(this.node, { bufferSize: count('bufferSize', bufferSize, 1), seed, reshuffleEachIteration }));
  }

  /** Without end unless told. */
  repeat(times = Number.POSITIVE_INFINITY): Dataset<T> {
    return this.#with(new RepeatNode(this.node, times === Number.POSITIVE_INFINITY ? times : count('repeat', times, 0)));
  }

  /** The first elements of the whole dataset. */
  take(elements: number): Dataset<T> {
    return this.#with(new SliceNode(this.node, 0, count('take', elements, 0)));
  }

  /** All but the first elements of the whole dataset. */
  skip(elements: number): Dataset<T> {
    return this.#with(new SliceNode(this.node, count('skip', elements, 0), Number.POSITIVE_INFINITY));
  }

  /** Every `shards`-th element of the whole dataset, beginning with number `index`. */
  shard(shards: number, index: number): Dataset<T> {
    count('shards', shards, 1);
    if (count('shard', index, 0) >= shards) throw new TonyError('DATA_INVALID', `there is no shard ${index} of ${shards}`);
    return this.#with(new ShardNode(this.node, { index, count: shards }));
  }

  /**
   * Reads ahead while elements are used: up to `elements` of them, and about `bytes` (as they were in storage; 64 MiB unless told).
   */
  prefetch(elements: number, options: { readonly bytes?: number } = {}): Dataset<T> {
    const limits = { items: count('prefetch', elements, 1), bytes: count('bytes', options.bytes ?? PREFETCH_BYTES, 1) };
    return this.#with(new PrefetchNode(this.node, limits));
  }

  /**
   * Keeps what the first epoch has read, for the epochs after it: in memory, or with `{ disk: true }` in the container's folder, each rank its
   * own share. Shuffle behind it.
   */
  cache(options: CacheOptions = {}): Dataset<T> {
    return this.#with(new CacheNode(this.node, options));
  }

  /**
   * The files are given out to readers on demand, whole or in the parts that they are read in, instead of being dealt out in advance: who is
   * faster reads more. The job's ApplicationMaster does it; each element is still used once in a pass, restarts included. Where there are fewer
   * files (or parts) than readers, records are dealt out as ever.
   *
   * A dataset with `cache`, `zip`, `sampleFrom`, `take`, `skip` or `shard` before or behind it fails with USAGE when it is read: what a reader
   * gets differs from pass to pass. Of `interleave` it gives out the elements, not the files of the datasets that are made of them.
   */
  dispatch(): Dataset<T> {
    return this.#with(new DispatchNode(this.node));
  }

  /**
   * Begins to read: `for await (const element of dataset.read({ epoch: 3 }))`. Its `state()` can be stored as JSON at any time.
   * @throws TonyError NOT_FOUND, ACCESS_DENIED, HDFS_UNREACHABLE, DATA_INVALID, while it is read.
   */
  read(options: ReadOptions = {}): DatasetReader<T> {
    return new DatasetReader(this.node, options);
  }

  /**
   * The parts that its files are read in, whoever reads them: `read({ split: 0 })` gives the elements of the first. For datasets without `shuffle`,
   * `repeat`, `take`, `skip` and `shard`.
   * @throws TonyError NOT_FOUND, DATA_INVALID.
   */
  splits(options: Pick<ReadOptions, 'storage' | 'signal'> = {}): Promise<SplitList> {
    return splitsOf(this.node, options);
  }

  /**
   * Splits that no other task of this role has, one after the other, to be read by `read({ split })`; all of them when the program runs alone. A
   * split is finished when the next one is asked for. What a task has not finished when it dies is given to others, and the loop ends when all
   * splits are finished; a ranked role that begins a new generation begins anew.
   * @throws TonyError NOT_FOUND, DATA_INVALID.
   */
  async *claimSplits(options: Pick<ReadOptions, 'storage' | 'signal'> = {}): AsyncGenerator<number, void> {
    yield* claimSplits(await this.splits(options), options.signal ?? new AbortController().signal);
  }

  [Symbol.asyncIterator](): DatasetReader<T> {
    return this.read();
  }

  /** All elements; for what is known to be small. */
  async toArray(options: ReadOptions = {}): Promise<T[]> {
    const elements: T[] = [];
    for await (const element of this.read(options)) elements.push(element);
    return elements;
  }

  /** As a dataset of tf.data, for `model.fitDataset` and `model.evaluateDataset`; columns become tensors. Each iterator is another epoch. */
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

function count(name: string, value: number, least: number): number {
  if (!Number.isInteger(value) || value < least) {
    throw new TonyError('DATA_INVALID', `${name} is ${value}; it must be a whole number of at least ${least}`);
  }
  return value;
}
