import type * as tfjs from '@tensorflow/tfjs';
import type { Json } from '../../platform/json-value.ts';
import { shuffledOrder } from '../process/random.ts';
import { type Batch, batchOf, countExamples, type TrainingData } from './data.ts';
import { shardOfStep } from './shard.ts';

export interface BatchStep {
  /** Creates the batch's tensors; null if this rank has no examples in this step. Call it within tf.tidy. */
  readonly batch: (() => Batch) | null;
  /** The weight of this rank's gradient: the rank's fraction of the step's examples. */
  readonly weight: number;
  /** The number of examples in this step, summed over all ranks. */
  readonly used: number;
  readonly ended: boolean;
  /** Frees the dataset element behind the batch. Call it after the last use of the batch's tensors. */
  release(): void;
}

/** Supplies `fit` with batches. All ranks call the same methods in the same order and take the same number of steps. */
export interface BatchSource {
  /** The number of examples per epoch; undefined if it is unknown. */
  readonly size?: number;
  next(): Promise<BatchStep>;
  /**
   * Returns the position after the last step, for the checkpoint. Returns undefined if the step, the epoch and the number of used examples
   * already determine the position.
   */
  position(): Promise<Json | undefined>;
  close(): Promise<void>;
}

export interface IndexedBatchSourceOptions {
  readonly batchSize: number;
  readonly shuffle: boolean;
  readonly seed: number;
  readonly rank: number;
  readonly worldSize: number;
  readonly epoch: number;
  /** The number of examples of this epoch that all ranks together have used. */
  readonly examplesUsed: number;
  /** Uses only the first `examples` examples; all by default. */
  readonly examples?: number;
}

export class IndexedBatchSource implements BatchSource {
  readonly #tf: typeof tfjs;
  readonly #data: TrainingData;
  readonly #options: IndexedBatchSourceOptions;
  readonly #size: number;
  #epoch: number;
  #used: number;
  #order: Uint32Array | null = null;

  constructor(tf: typeof tfjs, data: TrainingData, options: IndexedBatchSourceOptions) {
    this.#tf = tf;
    this.#data = data;
    this.#options = options;
    this.#size = options.examples ?? countExamples(data);
    this.#epoch = options.epoch;
    this.#used = options.examplesUsed;
  }

  get size(): number {
    return this.#size;
  }

  async next(): Promise<BatchStep> {
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
