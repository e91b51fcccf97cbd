import type * as tfjs from '@tensorflow/tfjs';
import { messageOf, TonyError } from '../conf/errors.ts';
import type { Storage } from '../storage/storage.ts';
import type { TrainingPosition } from './checkpoint-format.ts';
import { type CompiledModel, inspectModel } from './compiled-model.ts';
import type { Batch } from './data.ts';
import type { Json } from './datasets/stream.ts';
import type { Feed } from './feed.ts';
import { batchSizeOf, type FitData, isDataset, openFeed } from './fit-data.ts';
import { nativeKernelsOf } from './native/native-kernels.ts';
import { createRandom, withRandom } from './random.ts';
import type { CheckpointPlan, StrategyFactory, TrainingStrategy } from './strategy.ts';
import type { SummaryWriter } from './summary.ts';
import type { Report } from './task-context.ts';

export interface FitOptions {
  readonly epochs?: number;
  /**
   * Examples for each rank in each step; 32 unless told. All ranks together take `batchSize` times the world size. Not for datasets that come
   * in batches.
   */
  readonly batchSize?: number;
  /** A new order of the examples in each epoch, the same on all ranks; true unless told. Datasets say it by `shuffle`. */
  readonly shuffle?: boolean;
  /** Steps that make an epoch, however much the dataset has: for one that `repeat` makes endless. Only for datasets. */
  readonly batchesPerEpoch?: number;
  /** Of the order of the data and of dropout masks; equal seeds give equal runs. */
  readonly seed?: number;
  readonly summaries?: FitSummaries;
  readonly callbacks?: FitCallbacks;
}

/** What TensorBoard gets to see beside the hyperparameters and the model; only rank 0 writes it. */
export interface FitSummaries {
  /** Loss and metrics of each so many steps, and of the first and the last one; 10 unless told. */
  readonly everySteps?: number;
  /** How each weight is spread, at the beginning and after each epoch; false unless told. */
  readonly histograms?: boolean;
}

/** Called on every rank, with values averaged over all of them. */
export interface FitCallbacks {
  readonly onEpochBegin?: (epoch: number) => void | Promise<void>;
  readonly onEpochEnd?: (epoch: number, logs: Readonly<Record<string, number>>) => void | Promise<void>;
  /** @param step counts from 1 through all epochs. */
  readonly onBatchEnd?: (step: number, logs: Readonly<Record<string, number>>) => void | Promise<void>;
}

/** As tf.LayersModel.fit's History: for each epoch that ran to its end in this process. */
export interface FitHistory {
  readonly epoch: readonly number[];
  readonly history: Readonly<Record<string, readonly number[]>>;
  /** Steps taken since the very beginning, those before a restart included. */
  readonly steps: number;
}

/** What `fit` needs of the world around it. */
export interface FitEnvironment {
  readonly tf: typeof tfjs;
  readonly strategy: StrategyFactory;
  /** For datasets; that of the job unless told. */
  readonly storage?: Storage;
  readonly applicationId: string;
  readonly generation: number;
  readonly checkpoints: CheckpointPlan | null;
  /** Only on the rank that writes them. */
  readonly summaries: SummaryWriter | null;
  readonly report: (report: Report) => void;
}

const PROGRESS_MS = 1000;
const SUMMARY_EVERY_STEPS = 10;

/**
 * Trains a compiled tf.LayersModel on all ranks at once: each takes its share of each batch, and the averaged gradients are applied
 * everywhere, so the ranks' weights stay equal. Begins with the weights of rank 0, or goes on from the newest good checkpoint exactly
 * where it was taken. Layers with moving averages (batch normalisation) see their own share; the averages are averaged.
 *
 * @throws TonyError MODEL_INVALID, DATA_INVALID, CHECKPOINT_MISFIT, CHECKPOINT_FAILED, PEER_LOST, RING_MISMATCH.
 */
export async function fit(
  environment: FitEnvironment,
  model: tfjs.LayersModel,
  data: FitData,
  options: FitOptions = {},
): Promise<FitHistory> {
  const run = new Fit(environment, inspectModel(environment.tf, model), data, options);
  try {
    return await run.run();
  } finally {
    await run.dispose();
  }
}

class Fit {
  readonly #environment: FitEnvironment;
  readonly #model: CompiledModel;
  readonly #data: FitData;
  readonly #callbacks: FitCallbacks;
  readonly #epochs: number;
  readonly #options: FitOptions;
  readonly #batchSize: number | null;
  readonly #batchesPerEpoch: number | null;
  readonly #summaryEverySteps: number;
  readonly #histograms: boolean;
  readonly #strategy: TrainingStrategy;
  #feed: Feed | null = null;
  #dataPosition: Json | undefined;
  #seed: number;
  #step = 0;
  #epoch = 0;
  #examples = 0;
  #reportedAt = 0;
  #usedSinceReport = 0;
  #toldOfSlowSteps = false;

  constructor(environment: FitEnvironment, model: CompiledModel, data: FitData, options: FitOptions) {
    this.#environment = environment;
    this.#model = model;
    this.#data = data;
    this.#callbacks = options.callbacks ?? {};
    this.#epochs = positive('epochs', options.epochs ?? 1);
    this.#options = options;
    this.#batchSize = batchSizeOf(data, options.batchSize === undefined ? undefined : positive('batchSize', options.batchSize));
    this.#batchesPerEpoch = options.batchesPerEpoch === undefined ? null : positive('batchesPerEpoch', options.batchesPerEpoch);
    if (this.#batchesPerEpoch !== null && !isDataset(data)) {
      throw new TonyError('USAGE', 'batchesPerEpoch is for datasets: other data is used once in each epoch');
    }
    this.#summaryEverySteps = positive('summaries.everySteps', options.summaries?.everySteps ?? SUMMARY_EVERY_STEPS);
    this.#histograms = options.summaries?.histograms ?? false;
    this.#seed = options.seed ?? 1;
    const { tf, strategy, applicationId, generation, checkpoints, report } = environment;
    this.#strategy = strategy.open({
      tf,
      model,
      applicationId,
      generation,
      checkpoints,
      report,
      onNotice: (message) => this.#notice(message),
    });
  }

  async run(): Promise<FitHistory> {
    await this.#begin();
    this.#feed = this.#openFeed();
    this.#describe();
    const epochs: number[] = [];
    const history: Record<string, number[]> = Object.fromEntries(this.#model.metricNames.map((name) => [name, []]));
    this.#reportedAt = Date.now();
    while (this.#epoch < this.#epochs) {
      const epoch = this.#epoch;
      await this.#callbacks.onEpochBegin?.(epoch);
      const logs = await this.#runEpoch();
      this.#tellOfSlowSteps();
      epochs.push(epoch);
      for (const [name, value] of Object.entries(logs)) {
        history[name]?.push(value);
      }
      this.#addHistograms();
      await this.#callbacks.onEpochEnd?.(epoch, logs);
    }
    await this.#finish();
    return { epoch: epochs, history, steps: this.#step };
  }

  async dispose(): Promise<void> {
    this.#strategy.dispose();
    await this.#feed?.close();
  }

  /** Once, and only where they could be fast. */
  #tellOfSlowSteps(): void {
    const { tf } = this.#environment;
    const reason = this.#strategy.reasonOfSlowSteps;
    if (!this.#toldOfSlowSteps && this.#strategy.rank === 0 && reason !== null && nativeKernelsOf(tf) !== null) {
      this.#toldOfSlowSteps = true;
      this.#notice(`the optimizer's steps are TensorFlow.js's own, and slower than they could be: ${reason}`);
    }
  }

  async #begin(): Promise<void> {
    const position = await this.#strategy.begin();
    if (position !== null) {
      this.#step = position.step;
      this.#epoch = position.epoch;
      this.#examples = position.examples;
      this.#seed = position.seed;
      this.#dataPosition = position.data;
    }
    if (this.#step > 0 || this.#environment.generation > 1) {
      this.#environment.summaries?.resumeFrom(this.#step + 1);
    }
  }

  #describe(): void {
    const { summaries } = this.#environment;
    const { model, optimizer } = this.#model;
    const { learningRate } = optimizer.getConfig();
    summaries?.addHparams({
      optimizer: optimizer.getClassName(),
      ...(typeof learningRate === 'number' ? { learning_rate: learningRate } : {}),
      ...(this.#batchSize === null ? {} : { batch_size: this.#batchSize }),
      world_size: this.#strategy.worldSize,
      epochs: this.#epochs,
      seed: this.#seed,
    });
    summaries?.graph(model);
    if (this.#step === 0) {
      this.#addHistograms();
    }
  }

  #addHistograms(): void {
    if (this.#histograms) {
      for (const { name, variable } of this.#model.weights) {
        this.#environment.summaries?.histogram(name, variable, this.#step);
      }
    }
  }

  #openFeed(): Feed {
    const { tf, storage } = this.#environment;
    const { peers } = this.#strategy;
    const { batchSize, shuffle = true } = this.#options;
    const position = { epoch: this.#epoch, examples: this.#examples, data: this.#dataPosition };
    const world = { tf, peers, ...(storage === undefined ? {} : { storage }), onNotice: (message: string) => this.#notice(message) };
    return openFeed(world, this.#model, this.#data, { batchSize, shuffle, seed: this.#seed }, position);
  }

  /** From wherever the epoch stands to its end; the mean of what was seen of it in this process. */
  async #runEpoch(): Promise<Record<string, number>> {
    const feed = this.#feed as Feed;
    const sums = this.#model.metricNames.map(() => 0);
    let seen = 0;
    for (;;) {
      const { batch, weight, used, ended: isPassOver, release } = await feed.next();
      let values: number[];
      try {
        values = await this.#takeStep(batch, weight);
      } finally {
        release();
      }
      values.forEach((value, index) => {
        sums[index] = (sums[index] as number) + value * used;
      });
      seen += used;
      this.#step++;
      // All epochs have equally many steps then.
      const ended = this.#batchesPerEpoch === null ? isPassOver : this.#step % this.#batchesPerEpoch === 0;
      this.#epoch += ended ? 1 : 0;
      this.#examples = ended ? 0 : this.#examples + used;
      await this.#afterStep(values, used);
      if (ended) {
        break;
      }
    }
    return this.#logsOf(sums.map((sum) => (seen === 0 ? 0 : sum / seen)));
  }

  async #takeStep(makeBatch: (() => Batch) | null, weight: number): Promise<number[]> {
    const { tf } = this.#environment;
    const random = createRandom(this.#seed, this.#step, this.#strategy.rank);
    let metrics: readonly tfjs.Scalar[] = [];
    const compute = () =>
      withRandom(random, () => {
        const batch = (makeBatch as () => Batch)();
        const { loss, metrics: computed } = this.#model.lossOf(batch.x, batch.y);
        metrics = computed;
        return loss;
      });
    return await this.#strategy.step(makeBatch === null ? null : compute, weight, () => {
      if (makeBatch === null) {
        return this.#model.metricNames.slice(1).map(() => 0);
      }
      const values = metrics.map((metric) => metric.dataSync()[0] as number);
      tf.dispose([...metrics]);
      return values;
    });
  }

  async #afterStep(values: readonly number[], used: number): Promise<void> {
    const { checkpoints, summaries } = this.#environment;
    const logs = this.#logsOf(values);
    const over = this.#epoch >= this.#epochs;
    if (this.#step % this.#summaryEverySteps === 0 || this.#step === 1 || over) {
      summaries?.scalars(logs, this.#step);
    }
    this.#usedSinceReport += used;
    this.#reportProgress(logs);
    // The last checkpoint is written by `#finish`.
    if (checkpoints !== null && checkpoints.everySteps > 0 && this.#step % checkpoints.everySteps === 0 && !over) {
      // A run that goes on from here shall not lack what led here.
      void summaries?.flush();
      await this.#strategy.checkpoint(await this.#position(false));
    }
    await this.#callbacks.onBatchEnd?.(this.#step, logs);
  }

  #reportProgress(logs: Readonly<Record<string, number>>): void {
    const elapsed = Date.now() - this.#reportedAt;
    if (elapsed >= PROGRESS_MS) {
      const speed = (this.#usedSinceReport * 1000) / elapsed;
      const metrics = Object.fromEntries(Object.entries(logs).map(([name, value]) => [`train/${name}`, value]));
      this.#environment.report({
        type: 'progress',
        step: this.#step,
        metrics: { ...metrics, 'train/examplesPerSecond': Math.round(speed) },
      });
      this.#environment.summaries?.scalar('examples per second', speed, this.#step);
      this.#reportedAt = Date.now();
      this.#usedSinceReport = 0;
    }
  }

  async #position(final: boolean): Promise<TrainingPosition> {
    return {
      step: this.#step,
      epoch: this.#epoch,
      examples: this.#examples,
      seed: this.#seed,
      iterations: this.#model.optimizer.iterations,
      final,
      data: await this.#feed?.position(),
    };
  }

  async #finish(): Promise<void> {
    const { summaries } = this.#environment;
    summaries?.endSession(true);
    await this.#strategy.finish(await this.#position(true), summaries?.flush() ?? Promise.resolve());
  }

  #logsOf(values: readonly number[]): Record<string, number> {
    return Object.fromEntries(this.#model.metricNames.map((name, index) => [name, values[index] ?? 0]));
  }

  #notice(message: string): void {
    process.stderr.write(`tony-ts: ${message}\n`);
    this.#environment.report({ type: 'notice', message: messageOf(message) });
  }
}

function positive(name: string, value: number): number {
  if (!Number.isInteger(value) || value < 1) {
    throw new TonyError('DATA_INVALID', `${name} is ${value}; it must be a whole number of at least 1`);
  }
  return value;
}
