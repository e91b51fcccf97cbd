import type * as tfjs from '@tensorflow/tfjs';
import { messageOf, TonyError } from '../conf/errors.ts';
import type { Storage } from '../storage/storage.ts';
import type { Snapshot, StoredTensor, TrainingPosition } from './checkpoint-format.ts';
import type { CheckpointStore } from './checkpoint-store.ts';
import { CheckpointWriter } from './checkpoint-writer.ts';
import { type CompiledModel, inspectModel } from './compiled-model.ts';
import type { Batch } from './data.ts';
import type { Json } from './datasets/stream.ts';
import type { Feed } from './feed.ts';
import { batchSizeOf, type FitData, isDataset, openFeed } from './fit-data.ts';
import { nativeKernelsOf } from './native/native-kernels.ts';
import { createRandom, withRandom } from './random.ts';
import type { Ring } from './ring.ts';
import { broadcastBytes } from './ring-bytes.ts';
import { Stepper } from './step.ts';
import type { SummaryWriter } from './summary.ts';
import type { Report } from './task-context.ts';
import { captureState, restoreState } from './training-state.ts';

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
  readonly ring: Ring;
  /** For datasets; that of the job unless told. */
  readonly storage?: Storage;
  readonly applicationId: string;
  readonly generation: number;
  readonly checkpoints: { readonly store: CheckpointStore; readonly everySteps: number; readonly keep: number } | null;
  /** Only on the rank that writes them. */
  readonly summaries: SummaryWriter | null;
  readonly report: (report: Report) => void;
}

const PROGRESS_MS = 1000;
const SUMMARY_EVERY_STEPS = 10;
/** How often the ranks tell each other that the last checkpoint is still being written. */
const FINISH_ROUND_MS = 2000;

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
  readonly #stepper: Stepper;
  readonly #writer: CheckpointWriter | null;
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
    const { tf, ring } = environment;
    this.#stepper = new Stepper(tf, ring, model.optimizer, model.trainable, model.metricNames.length - 1);
    this.#writer = this.#openWriter();
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
    this.#stepper.dispose();
    await this.#feed?.close();
  }

  /** Once, and only where they could be fast. */
  #tellOfSlowSteps(): void {
    const { tf, ring } = this.#environment;
    const reason = this.#stepper.reasonOfSlowSteps;
    if (!this.#toldOfSlowSteps && ring.rank === 0 && reason !== null && nativeKernelsOf(tf) !== null) {
      this.#toldOfSlowSteps = true;
      this.#notice(`the optimizer's steps are TensorFlow.js's own, and slower than they could be: ${reason}`);
    }
  }

  /** Equal weights, optimizer slots and position on all ranks: those of rank 0, or of the checkpoint that it has found. */
  async #begin(): Promise<void> {
    const { tf, ring, generation, checkpoints } = this.#environment;
    let found: { uri: string; position: TrainingPosition; tensors: readonly StoredTensor[] } | null = null;
    if (ring.rank === 0 && checkpoints !== null) {
      await checkpoints.store.retireOlderThan(generation);
      found = await checkpoints.store.newest((message) => this.#notice(message));
      if (found !== null) {
        // Before the others are told: a checkpoint of another model is to be rank 0's error alone.
        restoreState(tf, this.#model, found.tensors, found.position.iterations, found.uri);
        this.#notice(`training goes on from ${found.uri}, step ${found.position.step}`);
      }
    }
    await this.#share(found?.position ?? null);
    if (this.#step > 0 || generation > 1) {
      this.#environment.summaries?.resumeFrom(this.#step + 1);
    }
  }

  #describe(): void {
    const { summaries, ring } = this.#environment;
    const { model, optimizer } = this.#model;
    const { learningRate } = optimizer.getConfig();
    summaries?.addHparams({
      optimizer: optimizer.getClassName(),
      ...(typeof learningRate === 'number' ? { learning_rate: learningRate } : {}),
      ...(this.#batchSize === null ? {} : { batch_size: this.#batchSize }),
      world_size: ring.worldSize,
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

  async #share(position: TrainingPosition | null): Promise<void> {
    const { tf, ring } = this.#environment;
    if (ring.worldSize > 1) {
      const tensors = ring.rank === 0 ? await captureState(tf, this.#model) : [];
      const places = tensors.map(({ name, dtype, shape, bytes }) => ({ name, dtype, shape, length: bytes.length }));
      const head = ring.rank === 0 ? Buffer.from(JSON.stringify({ position, places, iterations: this.#model.optimizer.iterations })) : null;
      const shared = JSON.parse(Buffer.from(await broadcastBytes(ring, head)).toString('utf8')) as {
        position: TrainingPosition | null;
        places: (Omit<StoredTensor, 'bytes'> & { length: number })[];
        iterations: number;
      };
      const all = await broadcastBytes(ring, ring.rank === 0 ? Buffer.concat(tensors.map(({ bytes }) => bytes)) : null);
      if (ring.rank > 0) {
        let at = 0;
        const received = shared.places.map(({ length, ...tensor }) => {
          at += length;
          return { ...tensor, bytes: all.subarray(at - length, at) };
        });
        restoreState(tf, this.#model, received, shared.iterations, 'what rank 0 trains');
      }
      position = shared.position;
    }
    if (position !== null) {
      this.#step = position.step;
      this.#epoch = position.epoch;
      this.#examples = position.examples;
      this.#seed = position.seed;
      this.#dataPosition = position.data;
    }
  }

  #openFeed(): Feed {
    const { tf, ring, storage } = this.#environment;
    const { batchSize, shuffle = true } = this.#options;
    const position = { epoch: this.#epoch, examples: this.#examples, data: this.#dataPosition };
    const world = { tf, ring, ...(storage === undefined ? {} : { storage }), onNotice: (message: string) => this.#notice(message) };
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
    const { tf, ring } = this.#environment;
    const random = createRandom(this.#seed, this.#step, ring.rank);
    let metrics: readonly tfjs.Scalar[] = [];
    const compute = () =>
      withRandom(random, () => {
        const batch = (makeBatch as () => Batch)();
        const { loss, metrics: computed } = this.#model.lossOf(batch.x, batch.y);
        metrics = computed;
        return loss;
      });
    return await this.#stepper.run(makeBatch === null ? null : compute, weight, () => {
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
      await this.#checkpoint(false);
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

  /** Every rank: moving averages are made equal first. Rank 0 writes, in the background. */
  async #checkpoint(final: boolean): Promise<void> {
    const { tf, ring } = this.#environment;
    await this.#averageMoving();
    const data = await this.#feed?.position();
    if (ring.rank !== 0 || this.#writer === null) {
      return;
    }
    const position: TrainingPosition = {
      step: this.#step,
      epoch: this.#epoch,
      examples: this.#examples,
      seed: this.#seed,
      iterations: this.#model.optimizer.iterations,
      final,
      data,
    };
    // A run that goes on from here shall not lack what led here.
    void this.#environment.summaries?.flush();
    this.#writer.offer({ position, tensors: await captureState(tf, this.#model) } satisfies Snapshot);
  }

  async #averageMoving(): Promise<void> {
    const { tf, ring } = this.#environment;
    const { moving } = this.#model;
    if (ring.worldSize === 1 || moving.length === 0) {
      return;
    }
    const vector = ring.vector(moving.reduce((sum, { size }) => sum + size, 0));
    let at = 0;
    for (const variable of moving) {
      vector.set(variable.dataSync() as Float32Array, at);
      at += variable.size;
    }
    await ring.allReduce(vector, 'mean');
    at = 0;
    for (const variable of moving) {
      const from = at;
      tf.tidy(() => variable.assign(tf.tensor(vector.slice(from, from + variable.size), variable.shape, 'float32')));
      at += variable.size;
    }
  }

  /** All ranks end together, and only when the last checkpoint is safe. */
  async #finish(): Promise<void> {
    const { ring, checkpoints, summaries } = this.#environment;
    summaries?.endSession(true);
    const flushed = summaries?.flush();
    if (checkpoints === null) {
      await this.#averageMoving();
      await flushed;
      return;
    }
    let state: 'writing' | 'done' | 'failed' = 'writing';
    let failure: unknown = null;
    await this.#checkpoint(true);
    const writing =
      ring.rank === 0 && this.#writer !== null
        ? Promise.all([this.#writer.finish(), flushed]).then(
            () => {
              state = 'done';
            },
            (error) => {
              state = 'failed';
              failure = error;
            },
          )
        : Promise.resolve();
    if (ring.worldSize === 1) {
      await writing;
    }
    while (ring.worldSize > 1) {
      if (ring.rank === 0) {
        await settledOrAfter(writing, FINISH_ROUND_MS);
      }
      const news = Float32Array.of({ writing: 0, done: 1, failed: 2 }[state as 'writing' | 'done' | 'failed']);
      await ring.broadcast(news);
      if (news[0] !== 0) {
        if (news[0] === 2 && ring.rank !== 0) {
          throw new TonyError('CHECKPOINT_FAILED', 'rank 0 could not write the last checkpoint');
        }
        break;
      }
    }
    if (failure !== null) {
      throw failure;
    }
  }

  #openWriter(): CheckpointWriter | null {
    const { ring, checkpoints, applicationId, generation, report } = this.#environment;
    if (checkpoints === null || ring.rank !== 0) {
      return null;
    }
    return new CheckpointWriter(checkpoints.store, {
      applicationId,
      generation,
      keep: checkpoints.keep,
      onSaved: (step) => report({ type: 'checkpoint', step }),
      onTrouble: (message) => this.#notice(message),
    });
  }

  #logsOf(values: readonly number[]): Record<string, number> {
    return Object.fromEntries(this.#model.metricNames.map((name, index) => [name, values[index] ?? 0]));
  }

  #notice(message: string): void {
    process.stderr.write(`tony-ts: ${message}\n`);
    this.#environment.report({ type: 'notice', message: messageOf(message) });
  }
}

async function settledOrAfter(work: Promise<void>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const pause = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([work, pause]);
  clearTimeout(timer);
}

function positive(name: string, value: number): number {
  if (!Number.isInteger(value) || value < 1) {
    throw new TonyError('DATA_INVALID', `${name} is ${value}; it must be a whole number of at least 1`);
  }
  return value;
}
