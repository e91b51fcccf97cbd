import type * as tfjs from '@tensorflow/tfjs';
import type { Json } from '../../platform/json-value.ts';
import type { Storage } from '../../storage/storage.ts';
import { nativeKernelsOf } from '../backend/native/native-kernels.ts';
import type { TrainingPosition } from '../checkpoint/checkpoint-format.ts';
import type { Phase } from '../checkpoint/phases.ts';
import type { StopOrders } from '../checkpoint/stop-order.ts';
import type { BatchSource, BatchStep } from '../data/batch-source.ts';
import type { Batch, TrainingData } from '../data/data.ts';
import { type FitData, isDataset, openFeed, standardFitData } from '../data/fit-data.ts';
import { differingData } from '../data/same-data.ts';
import { columnOf } from '../data/standard-data.ts';
import { type CompiledModel, inspectModel } from '../model/compiled-model.ts';
import type { StepPart, StepValues } from '../model/step-part.ts';
import { createRandom, withRandom } from '../process/random.ts';
import type { Report } from '../process/task-context.ts';
import { type ProfileWindow, StepProfile } from '../strategy/profile.ts';
import type { CheckpointPlan, StrategyFactory, TrainingStrategy } from '../strategy/strategy.ts';
import type { SummaryWriter } from '../summary/summary.ts';
import { CallbackList } from './callbacks.ts';
import { Divergence } from './divergence.ts';
import { EarlyEnd } from './early-end.ts';
import { EpochMeans } from './epoch-means.ts';
import { ClassWeightTables } from './example-weights.ts';
import { HistorySoFar } from './fit-history.ts';
import { type FitOptions, type FitPlan, planFit } from './fit-options.ts';
import { LearningRateSchedule } from './learning-rate.ts';
import type { TrainingProgress } from './unfinished-training.ts';
import { Validation } from './validation.ts';

/**
 * The counterpart of History in tf.LayersModel.fit: one entry per epoch that was completed or ended early, including epochs before a
 * restart.
 */
export interface FitHistory {
  readonly epoch: readonly number[];
  readonly history: Readonly<Record<string, readonly number[]>>;
  /** Steps taken by this call, including steps before a restart. */
  readonly steps: number;
  /** Why training ended before its last epoch; null if all epochs ran. */
  readonly endedEarly: string | null;
}

/** The dependencies of `fit`. */
export interface FitEnvironment {
  readonly tf: typeof tfjs;
  readonly strategy: StrategyFactory;
  /** The storage from which datasets are read; the job's storage by default. */
  readonly storage?: Storage;
  readonly applicationId: string;
  readonly generation: number;
  /** The phase of the program that this call represents. */
  readonly phase: Phase;
  readonly checkpoints: Omit<CheckpointPlan, 'phase'> | null;
  /** Stores an evaluator's order to end training, and the decision to end early. */
  readonly stopOrders?: StopOrders;
  /** Set only on the rank that writes summaries. */
  readonly summaries: SummaryWriter | null;
  readonly report: (report: Report) => void;
  /** Called after each step, and with null once training has ended and its last checkpoint is written. */
  readonly onProgress?: (progress: TrainingProgress | null) => void;
}

const PROGRESS_MS = 1000;
/**
 * A single worker checks the loss at this interval, because each read makes a GPU wait. With several workers, each step transfers the loss
 * from the backend anyway.
 */
const LOSS_EVERY_STEPS = 10;

/**
 * Trains a compiled tf.LayersModel on all ranks at once: each rank processes its share of each batch, and every rank applies the averaged
 * gradients, so the weights of all ranks stay equal. Starts with the weights of rank 0, or resumes from the newest valid checkpoint at
 * exactly the step where it was taken.
 *
 * @throws TonyError MODEL_INVALID, DATA_INVALID, TRAINING_DIVERGED, CHECKPOINT_MISFIT, CHECKPOINT_FAILED, PEER_LOST, RANKS_DIFFER,
 *   RING_MISMATCH.
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
  readonly #divergence: Divergence;
  readonly #phase: Phase;
  readonly #history: HistorySoFar;
  /** The running epoch and its means. */
  #means: { readonly epoch: number; readonly means: EpochMeans } | null = null;
  readonly #profile = new StepProfile();
  readonly #reported: ProfileWindow;
  readonly #summarised: ProfileWindow;
  /**
   * Exchanged with each step. Element 0: the number of ranks that want to stop. Elements 1 and up: how long each rank was busy with its
   * last step, ms.
   */
  readonly #signals: Float32Array;
  #feed: BatchSource | null = null;
  #dataPosition: Json | undefined;
  #seed: number;
  /** Steps taken in this phase. */
  #step = 0;
  #isOver = false;
  #epoch: number;
  #examples = 0;
  /** Steps taken in this epoch. */
  #batch = 0;
  /** Values of the last step. */
  #last: StepValues | null = null;
  #reportedAt = 0;
  #usedSinceReport = 0;
  #toldOfSlowSteps = false;
  /** Whether this process has taken a step. */
  #hasStepped = false;

  constructor(environment: FitEnvironment, model: CompiledModel, data: FitData, options: FitOptions) {
    this.#environment = environment;
    this.#model = model;
    this.#plan = planFit(standardFitData(environment.tf, model.model, data), standardOptions(environment.tf, options));
    this.#seed = this.#plan.seed;
    this.#epoch = this.#plan.initialEpoch;
    this.#callbacks = new CallbackList(options.callbacks);
    const { tf, strategy, applicationId, generation, phase, checkpoints, report } = environment;
    this.#phase = phase;
    const onNotice = (message: string, about?: string) => this.#notice(message, about);
    this.#schedule = options.learningRate === undefined ? null : new LearningRateSchedule(options.learningRate, model.optimizer);
    const { clock } = this.#profile;
    this.#signals = new Float32Array(strategy.worldSize === 1 ? 1 : 1 + strategy.worldSize);
    this.#strategy = strategy.open({
      tf,
      model,
      applicationId,
      generation,
      checkpoints: checkpoints === null ? null : { ...checkpoints, phase },
      stepOptions: this.#plan.stepOptions,
      ...(options.placement === undefined ? {} : { placement: options.placement }),
      signals: this.#signals.length,
      clock,
      report,
      onNotice,
    });
    this.#divergence = new Divergence(tf, model.trainable, this.#plan.onNaN, {
      ...{ phase: phase.name, onNotice },
      tells: strategy.rank === 0 || !this.#strategy.peers.stepsTogether,
    });
    const { validation } = this.#plan;
    const world = { tf, peers: this.#strategy.peers, ...this.#ownStorage(), onNotice };
    this.#validation = validation === null ? null : new Validation(world, model, validation.data, validation);
    this.#classWeights = options.classWeight === undefined ? null : new ClassWeightTables(tf, model.model, options.classWeight);
    this.#history = new HistorySoFar(this.#logNames());
    this.#early = new EarlyEnd(checkpoints === null ? null : (environment.stopOrders ?? null), {
      applicationId,
      phase: phase.name,
      cause: 'a callback has set model.stopTraining',
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
    if (!this.#isOver) {
      await this.#compareData();
      this.#feed = this.#openFeed();
      this.#describe();
    }
    const { epochs: last, batchSize } = this.#plan;
    this.#callbacks.setModel(this.#model.model, {
      epochs: last,
      initialEpoch: this.#epoch,
      batchSize: batchSize ?? 0,
      doValidation: this.#validation !== null,
      metrics: this.#logNames(),
    });
    await this.#callbacks.trainBegin();
    this.#model.stopTraining = false;
    this.#reportedAt = Date.now();
    // A resumed run that was ended early continues to the recorded step and stops there.
    await this.#agree();
    const { open } = this.#history;
    if (open !== null && open.epoch < this.#epoch) {
      // The checkpoint was taken after the last step of this epoch and before the end of the epoch.
      await this.#runEpoch(open.epoch);
    }
    while (this.#epoch < last && !this.#isOver && !this.#early.isDecided) {
      await this.#runEpoch(this.#epoch);
    }
    this.#history.endedEarly = this.#early.isDecided ? this.#early.reason : null;
    await this.#finish();
    this.#phase.end(this.#globalStep);
    this.#environment.onProgress?.(null);
    await this.#callbacks.trainEnd();
    const { epoch, logs, endedEarly } = this.#history;
    return { epoch, history: logs, steps: this.#step, endedEarly };
  }

  #logNames(): string[] {
    const names = this.#model.metricNames;
    return [...names, ...(this.#validation === null ? [] : names.map((name) => `val_${name}`))];
  }

  /** The step counted across all phases of the program, as used by checkpoints, summaries and reports to the job. */
  get #globalStep(): number {
    return this.#phase.start + this.#step;
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
      this.#phase.resume(position);
      this.#step = position.step - position.phase.start;
      this.#history.restore(position.history);
      this.#isOver = position.final && (this.#history.endedEarly !== null || position.epoch >= this.#plan.epochs);
      this.#epoch = position.epoch;
      this.#examples = position.examples;
      this.#seed = position.seed;
      this.#dataPosition = position.data;
      this.#batch = this.#batchesOf(position.examples);
    }
    await this.#early.begin(this.#isOver ? this.#history.endedEarly : null);
    if (!this.#isOver && (this.#step > 0 || this.#environment.generation > 1)) {
      this.#environment.summaries?.resumeFrom(this.#globalStep + 1);
    }
  }

  /** Steps already taken in the epoch; 0 if only reading the dataset would reveal the number. */
  #batchesOf(examples: number): number {
    const { stepsPerEpoch, batchSize, accumulate } = this.#plan;
    if (stepsPerEpoch !== null) return this.#step % stepsPerEpoch;
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
        this.#environment.summaries?.histogram(name, variable, this.#globalStep);
      }
    }
  }

  async #compareData(): Promise<void> {
    const { data } = this.#plan;
    const { peers, rank } = this.#strategy;
    const difference = isDataset(data) ? null : await differingData(this.#environment.tf, peers, data as TrainingData);
    if (difference !== null && rank === 0) {
      this.#notice(difference);
    }
  }

  #openFeed(): BatchSource {
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

  /** Runs the epoch from its current position to its end, or until training ends early. */
  async #runEpoch(epoch: number): Promise<void> {
    const { clock } = this.#profile;
    await this.#callbacks.epochBegin(epoch);
    const { open } = this.#history;
    const means = new EpochMeans(this.#model.metricNames.length, open?.epoch === epoch ? open : null);
    this.#means = { epoch, means };
    try {
      while (this.#epoch === epoch && !this.#early.isDecided) {
        await this.#runStep(means);
      }
      clock.enter('compute');
      const logs = this.#logsOf(means.read());
      clock.enter('other');
      Object.assign(logs, await this.#validate());
      this.#tellOfSlowSteps();
      await this.#callbacks.epochEnd(epoch, logs);
      this.#history.add(epoch, logs);
      this.#printEpoch(epoch, logs);
      await this.#agree();
    } finally {
      this.#means = null;
      means.dispose();
    }
  }

  #printEpoch(epoch: number, logs: Readonly<Record<string, number>>): void {
    if (this.#plan.printsEpochs && this.#strategy.rank === 0) {
      const values = Object.entries(logs).map(([name, value]) => `${name}=${Number(value.toPrecision(4))}`);
      process.stdout.write(`Epoch ${epoch + 1} / ${this.#plan.epochs}  ${values.join('  ')}\n`);
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
    // EpochMeans waits for the backend only once in many steps. If the ranks step together, `values` covers all of them, otherwise this
    // rank only.
    clock.enter('compute');
    means.add(values, this.#strategy.peers.stepsTogether ? used : taken.reduce((sum, step) => sum + step.weight * step.used, 0));
    clock.enter('other');
    this.#profile.stepTaken();
    this.#step++;
    this.#batch++;
    const { stepsPerEpoch, epochs } = this.#plan;
    this.#environment.onProgress?.({ step: this.#globalStep, epoch: this.#epoch, epochs });
    // With `stepsPerEpoch`, every epoch has the same number of steps.
    const ended = stepsPerEpoch === null ? taken.some((step) => step.ended) : this.#step % stepsPerEpoch === 0;
    this.#epoch += ended ? 1 : 0;
    this.#examples = ended ? 0 : this.#examples + used;
    this.#batch = ended ? 0 : this.#batch;
    await this.#afterStep(batch, values, used);
  }

  /** Takes the batches of one step; fewer at the end of a pass over the data. */
  async #takeBatches(): Promise<BatchStep[]> {
    const taken: BatchStep[] = [];
    do {
      taken.push(await (this.#feed as BatchSource).next());
    } while (taken.length < this.#plan.accumulate && taken.at(-1)?.ended === false);
    return taken;
  }

  async #takeStep(taken: readonly BatchStep[], used: number): Promise<StepValues> {
    const { worldSize, rank } = this.#strategy;
    this.#schedule?.apply({ step: this.#step, epoch: this.#epoch, worldSize });
    const parts = taken.map((step, index) => this.#partOf(step, index, used));
    const signals = this.#signals.fill(0);
    signals[0] = this.#early.isWanted(this.#model, this.#globalStep + 1) ? 1 : 0;
    if (worldSize > 1) {
      signals[1 + rank] = this.#profile.busySinceLast();
    }
    const values = await this.#strategy.step(parts, signals);
    if (!this.#hasStepped) {
      this.#hasStepped = true;
      this.#tellOfUntrained();
    }
    if (this.#strategy.peers.stepsTogether) {
      this.#profile.ranksWereBusy(signals.subarray(1));
    }
    this.#early.decide(signals[0] as number, this.#model, this.#globalStep + 1);
    return values;
  }

  #partOf({ batch: makeBatch, weight, used }: BatchStep, index: number, usedTogether: number): StepPart {
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

  /** The weight of each example, one tensor per output; null for equal weights. */
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
      summaries.scalars({ ...this.#logsOf(read()), ...this.#summarised.take() }, this.#globalStep);
    }
    if (this.#batch === 0 || isLast) {
      // Written with the last step of an epoch, because a run that resumes from the checkpoint of that step only ends the epoch.
      this.#addHistograms();
    }
    this.#usedSinceReport += used;
    this.#last = values;
    const checkpointIsDue = checkpoints !== null && checkpoints.everySteps > 0 && this.#step % checkpoints.everySteps === 0 && !isLast;
    if (this.#strategy.worldSize > 1 || this.#step % LOSS_EVERY_STEPS === 0 || this.#step === 1 || checkpointIsDue || isLast) {
      this.#divergence.checkLoss(read()[0], this.#globalStep);
    }
    if (Date.now() - this.#reportedAt >= PROGRESS_MS) {
      this.#reportProgress(read());
    }
    await this.#strategy.afterStep(() => this.#position(false));
    // `#finish` writes the last checkpoint.
    if (checkpointIsDue && this.#divergence.checkWeights(this.#globalStep)) {
      clock.enter('checkpoint');
      // A run that resumes from this checkpoint must find the summaries of the steps before it.
      void summaries?.flush();
      await this.#strategy.checkpoint(await this.#position(false));
      clock.enter('other');
    }
    await this.#callbacks.batchEnd({ batch, step: this.#step, size: used }, this.#model.metricNames, read);
    this.#early.afterStep(this.#model, this.#globalStep, this.#strategy.worldSize === 1);
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
    this.#environment.summaries?.scalars(named('val_'), this.#globalStep);
    this.#environment.report({ type: 'progress', step: this.#globalStep, metrics: named('val/') });
    return named('val_');
  }

  #reportProgress(values: readonly number[]): void {
    const speed = (this.#usedSinceReport * 1000) / Math.max(1, Date.now() - this.#reportedAt);
    const metrics = Object.fromEntries(Object.entries(this.#logsOf(values)).map(([name, value]) => [`train/${name}`, value]));
    this.#environment.report({
      type: 'progress',
      step: this.#globalStep,
      metrics: { ...metrics, 'train/examplesPerSecond': Math.round(speed), ...this.#reported.take() },
    });
    this.#environment.summaries?.scalar('examples per second', speed, this.#globalStep);
    this.#reportedAt = Date.now();
    this.#usedSinceReport = 0;
  }

  /** Exchanges the signals outside of steps. */
  async #agree(): Promise<void> {
    const signals = this.#signals.fill(0);
    signals[0] = this.#early.isWanted(this.#model, this.#globalStep) ? 1 : 0;
    await this.#strategy.agree(signals);
    this.#early.decide(signals[0] as number, this.#model, this.#globalStep);
  }

  async #position(final: boolean): Promise<TrainingPosition> {
    return {
      step: this.#globalStep,
      phase: this.#phase.place,
      epoch: this.#epoch,
      examples: this.#examples,
      seed: this.#seed,
      iterations: this.#model.optimizer.iterations,
      final,
      ...(final && !this.#divergence.checkWeights(this.#globalStep) ? { diverged: true } : {}),
      data: await this.#feed?.position(),
      history: this.#history.toJson(this.#means === null ? null : { epoch: this.#means.epoch, ...this.#means.means.soFar() }),
    };
  }

  async #finish(): Promise<void> {
    const { summaries, checkpoints, report } = this.#environment;
    if (checkpoints !== null) {
      report({ type: 'last-step', step: this.#globalStep });
    }
    if (this.#last !== null && this.#usedSinceReport > 0) {
      this.#reportProgress(this.#last.read());
    }
    await this.#early.announce(this.#globalStep);
    summaries?.endSession(true);
    await this.#strategy.finish(await this.#position(true), summaries?.flush() ?? Promise.resolve());
  }

  #logsOf(values: readonly number[]): Record<string, number> {
    return Object.fromEntries(this.#model.metricNames.map((name, index) => [name, values[index] ?? 0]));
  }

  /** Reports weights that training leaves unchanged although the program suggests that they are trained. */
  #tellOfUntrained(): void {
    const { trainable, thawed } = this.#model;
    if (this.#strategy.rank !== 0) {
      return;
    }
    const frozen = new Set(trainable.flatMap((variable) => (variable.trainable ? [] : [variable.name])));
    const unused = this.#strategy.withoutGradient.filter((name) => !frozen.has(name));
    if (unused.length > 0) {
      this.#notice(`the loss does not depend on ${listed(unused)}: training leaves ${unused.length === 1 ? 'it' : 'them'} as before`);
    }
    if (thawed.length > 0) {
      this.#notice(`training leaves out ${listed(thawed)}, made trainable after compile: call model.compile() again to train them`);
    }
  }

  /** Reports slow optimizer steps once, and only with a backend that has native kernels. */
  #tellOfSlowSteps(): void {
    const { tf } = this.#environment;
    const reason = this.#strategy.reasonOfSlowSteps;
    if (!this.#toldOfSlowSteps && this.#strategy.rank === 0 && reason !== null && nativeKernelsOf(tf) !== null) {
      this.#toldOfSlowSteps = true;
      this.#notice(`the optimizer's steps are TensorFlow.js's own, and slower than they could be: ${reason}`);
    }
  }

  /** A later notice with the same `about` replaces this one. */
  #notice(message: string, about?: string): void {
    process.stderr.write(`tony-ts: ${message}\n`);
    this.#environment.report({ type: 'notice', message, ...(about !== undefined && { about }) });
  }
}

function standardOptions(tf: typeof tfjs, options: FitOptions): FitOptions {
  const sampleWeight = options?.sampleWeight;
  return sampleWeight === undefined ? options : { ...options, sampleWeight: columnOf(tf, sampleWeight, 'sampleWeight') };
}

const MOST_NAMES = 5;

function listed(names: readonly string[]): string {
  const rest = names.length - MOST_NAMES;
  return rest > 0 ? `${names.slice(0, MOST_NAMES).join(', ')} and ${rest} more` : names.join(', ');
}
