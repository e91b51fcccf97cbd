import type * as tfjs from '@tensorflow/tfjs';
import type { Storage } from '../storage/storage.ts';
import { CallbackList } from './callbacks.ts';
import type { TrainingPosition } from './checkpoint-format.ts';
import { type CompiledModel, inspectModel } from './compiled-model.ts';
import type { Batch } from './data.ts';
import type { Json } from './datasets/stream.ts';
import { EarlyEnd } from './early-end.ts';
import { EpochMeans } from './epoch-means.ts';
import { ClassWeightTables } from './example-weights.ts';
import type { Feed, FeedStep } from './feed.ts';
import { type FitData, openFeed } from './fit-data.ts';
import { type FitOptions, type FitPlan, planFit } from './fit-options.ts';
import { LearningRateSchedule } from './learning-rate.ts';
import { nativeKernelsOf } from './native/native-kernels.ts';
import { type ProfileWindow, StepProfile } from './profile.ts';
import { createRandom, withRandom } from './random.ts';
import type { StepPart, StepValues } from './step-part.ts';
import type { StopOrders } from './stop-order.ts';
import type { CheckpointPlan, StrategyFactory, TrainingStrategy } from './strategy.ts';
import type { SummaryWriter } from './summary.ts';
import type { Report } from './task-context.ts';
import { Validation } from './validation.ts';

/** As tf.LayersModel.fit's History: for each epoch that came to its end, or was ended early, in this process. */
export interface FitHistory {
  readonly epoch: readonly number[];
  readonly history: Readonly<Record<string, readonly number[]>>;
  /** Steps taken since the very beginning, those before a restart included. */
  readonly steps: number;
  /** Why training ended before its last epoch; null when it did not. */
  readonly endedEarly: string | null;
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
  /** Where an evaluator orders the end of training, and what is decided about it is kept. */
  readonly stopOrders?: StopOrders;
  /** Only on the rank that writes them. */
  readonly summaries: SummaryWriter | null;
  readonly report: (report: Report) => void;
}

const PROGRESS_MS = 1000;

/**
 * Trains a compiled tf.LayersModel on all ranks at once: each takes its share of each batch, and the averaged gradients are applied
 * everywhere, so the ranks' weights stay equal. Begins with the weights of rank 0, or goes on from the newest good checkpoint exactly
 * where it was taken.
 *
 * @throws TonyError MODEL_INVALID, DATA_INVALID, CHECKPOINT_MISFIT, CHECKPOINT_FAILED, PEER_LOST, RANKS_DIFFER, RING_MISMATCH.
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
  readonly #plan: FitPlan;
  readonly #callbacks: CallbackList;
  readonly #strategy: TrainingStrategy;
  readonly #validation: Validation | null;
  readonly #schedule: LearningRateSchedule | null;
  readonly #classWeights: ClassWeightTables | null;
  readonly #early: EarlyEnd;
  readonly #profile = new StepProfile();
  readonly #reported: ProfileWindow;
  readonly #summarised: ProfileWindow;
  /** Who wants to stop, then how long each rank was busy with its last step, ms. */
  readonly #signals: Float32Array;
  #feed: Feed | null = null;
  #dataPosition: Json | undefined;
  #seed: number;
  #step = 0;
  #epoch: number;
  #examples = 0;
  /** Of this epoch. */
  #batch = 0;
  /** Of the last step. */
  #last: StepValues | null = null;
  #reportedAt = 0;
  #usedSinceReport = 0;
  #toldOfSlowSteps = false;

  constructor(environment: FitEnvironment, model: CompiledModel, data: FitData, options: FitOptions) {
    this.#environment = environment;
    this.#model = model;
    this.#plan = planFit(data, options);
    this.#seed = this.#plan.seed;
    this.#epoch = this.#plan.initialEpoch;
    this.#callbacks = new CallbackList(options.callbacks);
    const { tf, strategy, applicationId, generation, checkpoints, report } = environment;
    const onNotice = (message: string) => this.#notice(message);
    this.#schedule = options.learningRate === undefined ? null : new LearningRateSchedule(options.learningRate, model.optimizer);
    const { clock } = this.#profile;
    this.#signals = new Float32Array(strategy.worldSize === 1 ? 1 : 1 + strategy.worldSize);
    this.#strategy = strategy.open({
      tf,
      model,
      applicationId,
      generation,
      checkpoints,
      stepOptions: this.#plan.stepOptions,
      ...(options.placement === undefined ? {} : { placement: options.placement }),
      signals: this.#signals.length,
      clock,
      report,
      onNotice,
    });
    const { validation } = this.#plan;
    const world = { tf, peers: this.#strategy.peers, ...this.#ownStorage(), onNotice };
    this.#validation = validation === null ? null : new Validation(world, model, validation.data, validation);
    this.#classWeights = options.classWeight === undefined ? null : new ClassWeightTables(tf, model.model, options.classWeight);
    this.#early = new EarlyEnd(checkpoints === null ? null : (environment.stopOrders ?? null), {
      applicationId,
      keepsOrders: strategy.rank === 0,
      onNotice,
      onEnd: (step, reason) => {
        process.stderr.write(`tony-ts: training ends early, with step ${step}: ${reason}\n`);
        report({ type: 'early-end', step, reason });
      },
    });
    this.#reported = this.#profile.window();
    this.#summarised = this.#profile.window();
  }

  async run(): Promise<FitHistory> {
    await this.#begin();
    this.#feed = this.#openFeed();
    this.#describe();
    const { epochs: last, batchSize } = this.#plan;
    const names = this.#model.metricNames;
    const doValidation = this.#validation !== null;
    const metrics = [...names, ...(doValidation ? names.map((name) => `val_${name}`) : [])];
    this.#callbacks.setModel(this.#model.model, {
      epochs: last,
      initialEpoch: this.#epoch,
      batchSize: batchSize ?? 0,
      doValidation,
      metrics,
    });
    await this.#callbacks.trainBegin();
    this.#model.stopTraining = false;
    const epochs: number[] = [];
    const history: Record<string, number[]> = Object.fromEntries(metrics.map((name) => [name, []]));
    this.#reportedAt = Date.now();
    // A run that was ended early goes on to that step, and not beyond it.
    await this.#agree();
    while (this.#epoch < last && !this.#early.isDecided) {
      const epoch = this.#epoch;
      const logs = await this.#runEpoch();
      epochs.push(epoch);
      for (const [name, value] of Object.entries(logs)) {
        history[name]?.push(value);
      }
    }
    await this.#finish();
    await this.#callbacks.trainEnd();
    return { epoch: epochs, history, steps: this.#step, endedEarly: this.#early.isDecided ? this.#early.reason : null };
  }

  async dispose(): Promise<void> {
    this.#strategy.dispose();
    this.#schedule?.restore();
    this.#classWeights?.dispose();
    await this.#feed?.close();
  }

  async #begin(): Promise<void> {
    const position = await this.#strategy.begin();
    if (position !== null) {
      this.#step = position.step;
      this.#epoch = position.epoch;
      this.#examples = position.examples;
      this.#seed = position.seed;
      this.#dataPosition = position.data;
      this.#batch = this.#batchesOf(position.examples);
    }
    await this.#early.begin();
    if (this.#step > 0 || this.#environment.generation > 1) {
      this.#environment.summaries?.resumeFrom(this.#step + 1);
    }
  }

  /** How many steps of the epoch lie behind; what only the dataset could say is not asked for. */
  #batchesOf(examples: number): number {
    const { batchesPerEpoch, batchSize, accumulate } = this.#plan;
    if (batchesPerEpoch !== null) return this.#step % batchesPerEpoch;
    return batchSize === null ? 0 : Math.ceil(examples / (batchSize * accumulate * this.#strategy.worldSize));
  }

  #describe(): void {
    const { summaries } = this.#environment;
    const { model, optimizer } = this.#model;
    const { batchSize, epochs, accumulate } = this.#plan;
    const { learningRate } = optimizer.getConfig();
    summaries?.addHparams({
      optimizer: optimizer.getClassName(),
      ...(typeof learningRate === 'number' ? { learning_rate: learningRate } : {}),
      ...(batchSize === null ? {} : { batch_size: batchSize }),
      ...(accumulate === 1 ? {} : { accumulate }),
      world_size: this.#strategy.worldSize,
      epochs,
      seed: this.#seed,
    });
    summaries?.graph(model);
    if (this.#step === 0) {
      this.#addHistograms();
    }
  }

  #addHistograms(): void {
    if (this.#plan.histograms) {
      for (const { name, variable } of this.#model.weights) {
        this.#environment.summaries?.histogram(name, variable, this.#step);
      }
    }
  }

  #openFeed(): Feed {
    const { peers } = this.#strategy;
    const { data, batchSize, shuffle, examples } = this.#plan;
    const position = { epoch: this.#epoch, examples: this.#examples, data: this.#dataPosition };
    const world = { tf: this.#environment.tf, peers, ...this.#ownStorage(), onNotice: (message: string) => this.#notice(message) };
    const options = { batchSize: batchSize ?? undefined, shuffle, seed: this.#seed, ...(examples === undefined ? {} : { examples }) };
    return openFeed(world, this.#model, data, options, position);
  }

  #ownStorage(): { storage?: Storage } {
    const { storage } = this.#environment;
    return storage === undefined ? {} : { storage };
  }

  /** From wherever the epoch stands to its end, or to where training is ended early; means of what was seen of it in this process. */
  async #runEpoch(): Promise<Record<string, number>> {
    const { clock } = this.#profile;
    const epoch = this.#epoch;
    await this.#callbacks.epochBegin(epoch);
    const means = new EpochMeans(this.#model.metricNames.length);
    try {
      while (this.#epoch === epoch && !this.#early.isDecided) {
        await this.#runStep(means);
      }
      clock.enter('compute');
      const logs = this.#logsOf(means.read());
      clock.enter('other');
      Object.assign(logs, await this.#validate());
      this.#tellOfSlowSteps();
      this.#addHistograms();
      await this.#callbacks.epochEnd(epoch, logs);
      await this.#agree();
      return logs;
    } finally {
      means.dispose();
    }
  }

  async #runStep(means: EpochMeans): Promise<void> {
    const { clock } = this.#profile;
    const batch = this.#batch;
    await this.#callbacks.batchBegin(batch);
    clock.enter('input');
    const taken = await this.#takeBatches();
    const used = taken.reduce((sum, step) => sum + step.used, 0);
    let values: StepValues;
    try {
      clock.enter('compute');
      values = await this.#takeStep(taken, used);
    } finally {
      clock.enter('other');
      for (const step of taken) step.release();
    }
    // Waits for the backend once in many steps. Values are of whoever steps together.
    clock.enter('compute');
    means.add(values, this.#strategy.peers.stepsTogether ? used : taken.reduce((sum, step) => sum + step.weight * step.used, 0));
    clock.enter('other');
    this.#profile.stepTaken();
    this.#step++;
    this.#batch++;
    const { batchesPerEpoch } = this.#plan;
    // All epochs have equally many steps then.
    const ended = batchesPerEpoch === null ? taken.some((step) => step.ended) : this.#step % batchesPerEpoch === 0;
    this.#epoch += ended ? 1 : 0;
    this.#examples = ended ? 0 : this.#examples + used;
    this.#batch = ended ? 0 : this.#batch;
    await this.#afterStep(batch, values, used);
  }

  /** As many as make a step; fewer at the end of a pass over the data. */
  async #takeBatches(): Promise<FeedStep[]> {
    const taken: FeedStep[] = [];
    do {
      taken.push(await (this.#feed as Feed).next());
    } while (taken.length < this.#plan.accumulate && taken.at(-1)?.ended === false);
    return taken;
  }

  async #takeStep(taken: readonly FeedStep[], used: number): Promise<StepValues> {
    const { worldSize, rank } = this.#strategy;
    this.#schedule?.apply({ step: this.#step, epoch: this.#epoch, worldSize });
    const parts = taken.map((step, index) => this.#partOf(step, index, used));
    const signals = this.#signals.fill(0);
    signals[0] = this.#early.isWanted(this.#model, this.#step + 1) ? 1 : 0;
    if (worldSize > 1) {
      signals[1 + rank] = this.#profile.busySinceLast();
    }
    const values = await this.#strategy.step(parts, signals);
    if (this.#strategy.peers.stepsTogether) {
      this.#profile.ranksWereBusy(signals.subarray(1));
    }
    this.#early.decide(signals[0] as number, this.#model, this.#step + 1);
    return values;
  }

  #partOf({ batch: makeBatch, weight, used }: FeedStep, index: number, usedTogether: number): StepPart {
    if (makeBatch === null) {
      return { compute: null, weight: 0 };
    }
    const { clock } = this.#profile;
    const seeds = [this.#seed, this.#step, this.#strategy.rank];
    const random = createRandom(...seeds, ...(index === 0 ? [] : [index]));
    const compute = () =>
      withRandom(random, () => {
        const phase = clock.enter('input');
        const batch = makeBatch();
        clock.enter(phase);
        return this.#model.lossOf(batch.x, batch.y, this.#weightsOf(batch));
      });
    return { compute, weight: used === usedTogether ? weight : (weight * used) / usedTogether };
  }

  /** How much each example counts, for each output. */
  #weightsOf({ y, sampleWeight }: Batch): (tfjs.Tensor | null)[] {
    const { tf } = this.#environment;
    const byClass = this.#classWeights?.of(y) ?? y.map(() => null);
    return byClass.map((weights) => {
      if (weights === null || sampleWeight === null) return weights ?? sampleWeight;
      return tf.mul(weights, tf.reshape(sampleWeight, [-1]));
    });
  }

  async #afterStep(batch: number, values: StepValues, used: number): Promise<void> {
    const { clock } = this.#profile;
    const { checkpoints, summaries } = this.#environment;
    const isLast = this.#epoch >= this.#plan.epochs || this.#early.isDecided;
    const read = () => {
      const phase = clock.enter('compute');
      const numbers = values.read();
      clock.enter(phase);
      return numbers;
    };
    if (summaries !== null && (this.#step % this.#plan.summaryEverySteps === 0 || this.#step === 1 || isLast)) {
      summaries.scalars({ ...this.#logsOf(read()), ...this.#summarised.take() }, this.#step);
    }
    this.#usedSinceReport += used;
    this.#last = values;
    if (Date.now() - this.#reportedAt >= PROGRESS_MS) {
      this.#reportProgress(read());
    }
    await this.#strategy.afterStep(() => this.#position(false));
    // The last checkpoint is written by `#finish`.
    if (checkpoints !== null && checkpoints.everySteps > 0 && this.#step % checkpoints.everySteps === 0 && !isLast) {
      clock.enter('checkpoint');
      // A run that goes on from here shall not lack what led here.
      void summaries?.flush();
      await this.#strategy.checkpoint(await this.#position(false));
      clock.enter('other');
    }
    await this.#callbacks.batchEnd({ batch, step: this.#step, size: used }, this.#model.metricNames, read);
    this.#early.afterStep(this.#model, this.#step, this.#strategy.worldSize === 1);
  }

  async #validate(): Promise<Record<string, number>> {
    if (this.#validation === null) {
      return {};
    }
    const { clock } = this.#profile;
    clock.enter('validation');
    const values = await this.#validation.run();
    clock.enter('other');
    const named = (prefix: string) =>
      Object.fromEntries(this.#model.metricNames.map((name, index) => [`${prefix}${name}`, values[index] ?? 0]));
    this.#environment.summaries?.scalars(named('val_'), this.#step);
    this.#environment.report({ type: 'progress', step: this.#step, metrics: named('val/') });
    return named('val_');
  }

  #reportProgress(values: readonly number[]): void {
    const speed = (this.#usedSinceReport * 1000) / Math.max(1, Date.now() - this.#reportedAt);
    const metrics = Object.fromEntries(Object.entries(this.#logsOf(values)).map(([name, value]) => [`train/${name}`, value]));
    this.#environment.report({
      type: 'progress',
      step: this.#step,
      metrics: { ...metrics, 'train/examplesPerSecond': Math.round(speed), ...this.#reported.take() },
    });
    this.#environment.summaries?.scalar('examples per second', speed, this.#step);
    this.#reportedAt = Date.now();
    this.#usedSinceReport = 0;
  }

  /** Outside of steps. */
  async #agree(): Promise<void> {
    const signals = this.#signals.fill(0);
    signals[0] = this.#early.isWanted(this.#model, this.#step) ? 1 : 0;
    await this.#strategy.agree(signals);
    this.#early.decide(signals[0] as number, this.#model, this.#step);
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
    const { summaries, checkpoints, report } = this.#environment;
    if (checkpoints !== null) {
      report({ type: 'last-step', step: this.#step });
    }
    if (this.#last !== null && this.#usedSinceReport > 0) {
      this.#reportProgress(this.#last.read());
    }
    await this.#early.announce(this.#step);
    summaries?.endSession(true);
    await this.#strategy.finish(await this.#position(true), summaries?.flush() ?? Promise.resolve());
  }

  #logsOf(values: readonly number[]): Record<string, number> {
    return Object.fromEntries(this.#model.metricNames.map((name, index) => [name, values[index] ?? 0]));
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

  #notice(message: string): void {
    process.stderr.write(`tony-ts: ${message}\n`);
    this.#environment.report({ type: 'notice', message });
  }
}
