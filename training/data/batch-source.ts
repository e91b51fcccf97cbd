import type * as tfjs from '@tensorflow/tfjs';
import type { Json } from '../../platform/json-value.ts';
import { shuffledOrder } from '../../platform/random.ts';
import { type Batch, batchOf, countExamples, type TrainingData } from './data.ts';

/** One rank's examples in one step: positions `from` to `to` (exclusive) in the epoch's order. */
interface StepShard {
  readonly from: number;
  readonly to: number;
  /** The position after all ranks' examples, where the next step starts. */
  readonly next: number;
  /** Weight of this rank's gradient: the fraction of the step's examples that this rank has. */
  readonly weight: number;
}

/**
 * Returns one rank's examples in the next step, in which each rank uses `batchSize` examples. In the last step of an epoch, the ranks
 * divide the remaining examples evenly, so some ranks may get none.
 * @param position the number of examples that all ranks have used in this epoch.
 */
export function shardOfStep(position: number, size: number, batchSize: number, rank: number, worldSize: number): StepShard {
  const together = Math.min(batchSize * worldSize, size - position);
  const from = position + Math.floor((rank * together) / worldSize);
  const to = position + Math.floor(((rank + 1) * together) / worldSize);
  return { from, to, next: position + together, weight: together === 0 ? 0 : (to - from) / together };
}

export interface BatchStep {
  /** Function that returns the batch's tensors, or null if this rank has no examples in this step. Must be called within tf.tidy. */
  readonly batch: (() => Batch) | null;
  /** Weight of this rank's gradient: the fraction of the step's examples that this rank has. */
  readonly weight: number;
  /** Number of examples in this step, summed over all ranks. */
  readonly used: number;
  readonly ended: boolean;
  /** Frees the dataset element from which the batch was created. Must be called once the batch's tensors are no longer needed. */
  release(): void;
}

/** Supplies `fit` with batches. All ranks must call the same methods in the same order, and all ranks take the same number of steps. */
export interface BatchSource {
  /** Number of examples per epoch, or undefined if the number is unknown. */
  readonly size?: number;
  /** True if no further epoch begins before a checkpoint contains the last step. */
  readonly needsCheckpoint: boolean;
  /**
   * Must be called before each epoch. Returns false if the data has ended, as a stream does. All ranks get the same result.
   * @param stored resolves when the newest checkpoint is stored, on the rank that writes checkpoints.
   */
  begin(stored: () => Promise<void>): Promise<boolean>;
  next(): Promise<BatchStep>;
  /**
   * Returns the position after the last step, for the checkpoint. Returns undefined if the checkpoint needs only the step, the epoch and
   * the number of examples used.
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
  /** Number of examples that all ranks together have used in this epoch. */
  readonly examplesUsed: number;
  /** Number of examples to use, from the start of the data. Default: all examples. */
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

  readonly needsCheckpoint = false;

  get size(): number {
    return this.#size;
  }

  async begin(): Promise<boolean> {
    return true;
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
