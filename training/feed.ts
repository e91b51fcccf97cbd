import type * as tfjs from '@tensorflow/tfjs';
import { type Batch, batchOf, countExamples, type TrainingData } from './data.ts';
import type { Json } from './datasets/stream.ts';
import { shuffledOrder } from './random.ts';
import { shardOfStep } from './shard.ts';

/** What one rank trains on in one step, and what is known of the others. */
export interface FeedStep {
  /** Makes the tensors; called within tf.tidy. null when this rank has no examples in this step. */
  readonly batch: (() => Batch) | null;
  /** This rank's share of the step's examples: its gradient counts by so much. */
  readonly weight: number;
  /** Examples of all ranks together. */
  readonly used: number;
  /** Nothing is left of this pass over the data; the next step begins another one. */
  readonly ended: boolean;
  /** To be called when the tensors have been used. */
  release(): void;
}

/** Where `fit` gets its batches from. All ranks call the same methods in the same order; all make the same number of steps. */
export interface Feed {
  next(): Promise<FeedStep>;
  /** Where the data stands behind the last step, for rank 0 to store; undefined when step, epoch and examples say it all. */
  position(): Promise<Json | undefined>;
  close(): Promise<void>;
}

export interface IndexedFeedOptions {
  readonly batchSize: number;
  readonly shuffle: boolean;
  readonly seed: number;
  readonly rank: number;
  readonly worldSize: number;
  readonly epoch: number;
  /** Of this epoch, by all ranks together. */
  readonly examplesUsed: number;
  /** Only so many of the first examples are used; all unless told. */
  readonly examples?: number;
}

/** Examples that every rank can reach by their numbers. */
export class IndexedFeed implements Feed {
  readonly #tf: typeof tfjs;
  readonly #data: TrainingData;
  readonly #options: IndexedFeedOptions;
  readonly #size: number;
  #epoch: number;
  #used: number;
  #order: Uint32Array | null = null;

  constructor(tf: typeof tfjs, data: TrainingData, options: IndexedFeedOptions) {
    this.#tf = tf;
    this.#data = data;
    this.#options = options;
    this.#size = options.examples ?? countExamples(data);
    this.#epoch = options.epoch;
    this.#used = options.examplesUsed;
  }

  async next(): Promise<FeedStep> {
    const { batchSize, rank, worldSize } = this.#options;
    this.#order ??= this.#orderOfEpoch();
    const { from, to, next, weight } = shardOfStep(this.#used, this.#size, batchSize, rank, worldSize);
    const indices = this.#order.subarray(from, to);
    const used = next - this.#used;
    const ended = next === this.#size;
    this.#used = ended ? 0 : next;
    if (ended) {
      this.#epoch++;
      this.#order = null;
    }
    const batch = indices.length === 0 ? null : () => batchOf(this.#tf, this.#data, indices);
    return { batch, weight, used, ended, release: () => {} };
  }

  async position(): Promise<undefined> {}

  async close(): Promise<void> {}

  #orderOfEpoch(): Uint32Array {
    const { shuffle, seed } = this.#options;
    return shuffle ? shuffledOrder(this.#size, seed, this.#epoch) : Uint32Array.from({ length: this.#size }, (_, index) => index);
  }
}
