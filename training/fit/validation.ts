import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../../platform/errors.ts';
import { createRandom, withRandom } from '../../platform/random.ts';
import type { Storage } from '../../storage/storage.ts';
import { type Batch, batchOf, countExamples, prepareBatch, type TrainingData } from '../data/data.ts';
import { datasetOf, prepareOf, type StandardFitData, standardFitData, type ValidationData } from '../data/fit-data.ts';
import { disposeElement } from '../data/reading/dispose.ts';
import type { InputLists } from '../data/reading/input-lists.ts';
import { countExamplesOf, tensorsOf } from '../data/training-element.ts';
import type { CompiledModel } from '../model/compiled-model.ts';
import { checkBatchSize, checkExampleCount } from '../model/stateful-batches.ts';
import { LazyValues } from '../model/step-part.ts';
import type { Peers } from '../ring/peers.ts';
import { waitForAll } from '../ring/wait-for-all.ts';
import { EpochMeans } from './epoch-means.ts';

export interface ValidationOptions {
  /** The number of examples per rank and batch. Has no effect on batched datasets. */
  readonly batchSize: number;
  /** For a dataset, the number of batches per rank. Default: all. */
  readonly batches?: number | undefined;
  /** For data in memory, the index of the first example to use. */
  readonly from?: number;
}

export interface ValidationWorld {
  readonly tf: typeof tfjs;
  readonly peers: Peers;
  /** The storage that contains the datasets. Default: the job's storage. */
  readonly storage?: Storage;
  /** The lists of the datasets' files. */
  readonly lists: InputLists;
  readonly onNotice: (message: string) => void;
}

interface EvaluationBatch {
  readonly examples: number;
  /** Creates a batch's tensors. Call this function within tf.tidy. */
  readonly make: () => Batch;
  release(): void;
}

const PREFETCH_BATCHES = 2;
/** Distinguishes the random numbers of a validation from those of the training step with the same number. */
const VALIDATION = 0x76616c;

/**
 * Computes loss and metrics on validation data. If ranks step together, each rank evaluates a share of the data. Otherwise, each rank
 * evaluates all of the data.
 */
export class Validation {
  readonly #world: ValidationWorld;
  readonly #model: CompiledModel;
  readonly #data: StandardFitData;
  readonly #options: ValidationOptions;

  /** @throws TonyError DATA_INVALID if the data is invalid or has no examples. */
  constructor(world: ValidationWorld, model: CompiledModel, data: ValidationData, options: ValidationOptions) {
    this.#world = world;
    this.#model = model;
    this.#data = standardFitData(world.tf, model.model, data);
    this.#options = options;
    const dataset = datasetOf(this.#data);
    if (dataset === null) {
      const examples = countExamples(this.#data as TrainingData) - (options.from ?? 0);
      checkExampleCount(model.statefulBatches, examples, world.peers.stepsTogether ? world.peers.worldSize : 1, 'the validation data');
    }
    checkBatchSize(model.statefulBatches, dataset?.isBatched === true ? null : options.batchSize, 'the batch size of the validation');
  }

  /**
   * Computes the means over all examples, in the order of the model's metric names.
   * @param seeds numbers that identify this validation, such as a seed and a step. Random operations of the model and of `prepare` depend
   *   only on them, so a resumed run computes the same means.
   * @throws TonyError DATA_INVALID if there are no examples.
   */
  async run(...seeds: readonly number[]): Promise<number[]> {
    const { peers } = this.#world;
    const means = new EpochMeans(this.#model.metricNames.length);
    try {
      const work = this.#evaluateShare(means, seeds);
      // Ranks may differ in speed and in the size of their shares.
      await waitForAll(peers, work);
      const own = means.read();
      const sums = Float32Array.of(...own.map((mean) => mean * means.seen), means.seen);
      await peers.sum(sums);
      const seen = sums.at(-1) as number;
      if (seen === 0) {
        throw new TonyError('DATA_INVALID', 'the validation data has no examples');
      }
      return Array.from(sums.subarray(0, -1), (sum) => sum / seen);
    } finally {
      means.dispose();
    }
  }

  async #evaluateShare(means: EpochMeans, seeds: readonly number[]): Promise<void> {
    const { peers } = this.#world;
    let batch = 0;
    for await (const { examples, make, release } of this.#batches()) {
      try {
        const random = createRandom(...seeds, VALIDATION, peers.stepsTogether ? peers.rank : 0, batch++);
        means.add(
          withRandom(random, () => this.#evaluate(make)),
          examples,
        );
      } finally {
        release();
      }
      // Yields to the event loop, which serves connections and writes checkpoints.
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
  }

  #evaluate(make: () => Batch): LazyValues {
    const { tf } = this.#world;
    const [loss, ...metrics] = tf.tidy(() => {
      const { x, y } = make();
      return this.#model.evaluate(x, y);
    });
    return new LazyValues([
      { kind: 'loss', tensors: [loss as tfjs.Scalar], weight: 1 },
      { kind: 'metrics', tensors: metrics, weight: 1 },
    ]);
  }

  #batches(): AsyncIterable<EvaluationBatch> | Iterable<EvaluationBatch> {
    return datasetOf(this.#data) === null ? this.#examples() : this.#elements();
  }

  *#examples(): Iterable<EvaluationBatch> {
    const { tf, peers } = this.#world;
    const { batchSize, from = 0 } = this.#options;
    const data = this.#data as TrainingData;
    const count = countExamples(data) - from;
    const [index, shares] = peers.stepsTogether ? [peers.rank, peers.worldSize] : [0, 1];
    const [first, end] = [from + Math.floor((index * count) / shares), from + Math.floor(((index + 1) * count) / shares)];
    for (let at = first; at < end; at += batchSize) {
      const examples = Math.min(batchSize, end - at);
      const indices = Uint32Array.from({ length: examples }, (_, place) => at + place);
      yield { examples, make: () => batchOf(tf, data, indices), release: () => {} };
    }
  }

  async *#elements(): AsyncIterable<EvaluationBatch> {
    const { tf, peers, storage, lists, onNotice } = this.#world;
    const { batchSize, batches = Number.POSITIVE_INFINITY } = this.#options;
    const { model } = this.#model;
    const given = datasetOf(this.#data) as NonNullable<ReturnType<typeof datasetOf>>;
    const dataset = (given.isBatched ? given : given.batch(batchSize)).prefetch(PREFETCH_BATCHES);
    const share = peers.stepsTogether ? { index: peers.rank, count: peers.worldSize } : { index: 0, count: 1 };
    const reader = dataset.read({ ...(storage === undefined ? {} : { storage }), lists, share, seed: 1, epoch: 0, onNotice });
    const names = { inputs: model.inputNames, outputs: model.outputNames };
    const prepare = prepareOf(this.#data);
    try {
      for (let taken = 0; taken < batches; taken++) {
        const { done, value } = await reader.next();
        if (done) {
          return;
        }
        yield {
          examples: countExamplesOf(value),
          make: () => prepareBatch(tensorsOf(tf, value, names), prepare),
          release: () => disposeElement(value),
        };
      }
    } finally {
      await reader.return();
    }
  }
}
