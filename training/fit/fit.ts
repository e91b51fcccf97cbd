import type * as tfjs from '@tensorflow/tfjs';
import type { Json } from '../../platform/json-value.ts';
import type { Storage } from '../../storage/storage.ts';
import type { TrainingPosition } from '../checkpoint/checkpoint-format.ts';
import { CheckpointOrder } from '../checkpoint/checkpoint-order.ts';
import type { Phase } from '../checkpoint/phases.ts';
import type { StopOrders } from '../checkpoint/stop-order.ts';
import type { TrainingData } from '../data/data.ts';
import { type FitData, isDataset, standardFitData } from '../data/fit-data.ts';
import { differingData } from '../data/same-data.ts';
import { columnOf } from '../data/standard-data.ts';
import { type CompiledModel, inspectModel } from '../model/compiled-model.ts';
import { noticesTo, type OnNotice } from '../process/notices.ts';
import type { Report } from '../process/task-context.ts';
import { StepProfile } from '../strategy/profile.ts';
import type { CheckpointPlan, StrategyFactory, TrainingStrategy } from '../strategy/strategy.ts';
import type { SummaryWriter } from '../summary/summary.ts';
import { CallbackList, logsOf } from './callbacks.ts';
import { Divergence } from './divergence.ts';
import { EarlyEnd } from './early-end.ts';
import type { EpochMeans } from './epoch-means.ts';
import { ClassWeightTables } from './example-weights.ts';
import { HistorySoFar } from './fit-history.ts';
import { type FitOptions, type FitPlan, planFit } from './fit-options.ts';
import { FitReporter } from './fit-reporter.ts';
import { type FitStep, FitSteps, signalsOf } from './fit-steps.ts';
import { LearningRateSchedule } from './learning-rate.ts';
import { estimateMemory, memoryWarning, sizesOf, slotsOf } from './memory-estimate.ts';
import { PhaseProgress } from './phase-progress.ts';
import type { TrainingProgress } from './unfinished-training.ts';
import { Validation } from './validation.ts';

/**
 * The equivalent of the History that tf.LayersModel.fit returns. Contains one entry for each epoch that completed or ended early,
 * including epochs before a restart.
 */
export interface FitHistory {
  readonly epoch: readonly number[];
  readonly history: Readonly<Record<string, readonly number[]>>;
  /** The number of steps that this call has taken, including the steps before a restart. */
  readonly steps: number;
  /** Why training ended before its last epoch, or null if all epochs ran. */
  readonly endedEarly: string | null;
}

export interface FitEnvironment {
  readonly tf: typeof tfjs;
  readonly strategy: StrategyFactory;
  /** The storage that contains the datasets. Default: the job's storage. */
  readonly storage?: Storage;
  readonly applicationId: string;
  readonly generation: number;
  readonly phase: Phase;
  readonly checkpoints: Omit<CheckpointPlan, 'phase'> | null;
  /** Stores evaluators' stop orders and the decision to end early. Null if the run does not write checkpoints. */
  readonly stopOrders?: StopOrders | null;
  /** Orders from the executor to store a checkpoint immediately. */
  readonly checkpointOrder?: CheckpointOrder;
  /** The container's memory in MiB, or null to skip the memory estimate. */
  readonly memoryMb?: number | null;
  /** This rank's summary writer, or null if this rank does not write summaries. */
  readonly summaries: SummaryWriter | null;
  readonly report: (report: Report) => void;
  /** Called with the progress after each step, and with null after the last checkpoint has been written. */
  readonly onProgress?: (progress: TrainingProgress | null) => void;
}

/**
 * How often, in steps, a single worker checks the loss. It does not check every step, because each check makes the GPU wait. With several
 * workers, every step reads the loss from the backend anyway, so every step checks it.
 */
const LOSS_EVERY_STEPS = 10;

/**
 * Trains a compiled tf.LayersModel on all ranks together. Each rank processes its share of each batch. Every rank applies the averaged
 * gradients, so the weights are the same on all ranks. Starts with rank 0's weights, or resumes exactly at the step of the newest valid
 * checkpoint.
 * @throws TonyError MODEL_INVALID, DATA_INVALID, TRAINING_DIVERGED, CHECKPOINT_MISFIT, CHECKPOINT_FAILED, PEER_LOST, RANKS_DIFFER,
 *   RING_MISMATCH.
 */
export async function fit(
  environment: FitEnvironment,
  model: tfjs.LayersModel,
  data: FitData,
  options: FitOptions = {},
): Promise<FitHistory> {
  const run = new Fit(environment, inspectModel(environment.tf, model), data, withoutNulls(options));
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
  readonly #onNotice: OnNotice;
  readonly #strategy: TrainingStrategy;
  readonly #progress: PhaseProgress;
  readonly #profile = new StepProfile();
  readonly #steps: FitSteps;
  readonly #reporter: FitReporter;
  readonly #callbacks: CallbackList;
  readonly #validation: Validation | null;
  readonly #divergence: Divergence;
  readonly #early: EarlyEnd;
  readonly #checkpointOrder: CheckpointOrder;
  readonly #history: HistorySoFar;

  constructor(environment: FitEnvironment, model: CompiledModel, data: FitData, options: FitOptions) {
    this.#environment = environment;
    this.#model = model;
    this.#plan = planFit(standardFitData(environment.tf, model.model, data), standardOptions(environment.tf, options));
    const plan = this.#plan;
    const { tf, strategy: factory, storage, applicationId, generation, phase, checkpoints, summaries, report } = environment;
    const { rank, worldSize } = factory;
    this.#onNotice = noticesTo(report);
    const onNotice = this.#onNotice;
    const progress = new PhaseProgress(phase, plan.seed, plan.initialEpoch);
    this.#progress = progress;
    this.#callbacks = new CallbackList(options.callbacks);
    const schedule = options.learningRate === undefined ? null : new LearningRateSchedule(options.learningRate, model.optimizer);
    this.#strategy = factory.open({
      ...{ tf, model, applicationId, generation, report, onNotice },
      checkpoints: checkpoints === null ? null : { ...checkpoints, phase },
      stepOptions: plan.stepOptions,
      ...(options.placement === undefined ? {} : { placement: options.placement }),
      signals: signalsOf(worldSize),
      clock: this.#profile.clock,
    });
    const { peers } = this.#strategy;
    const reports = rank === 0 || !peers.stepsTogether;
    this.#divergence = new Divergence(tf, model.trainable, plan.onNaN, { phase: phase.name, onNotice, reports });
    const world = { tf, peers, ...(storage === undefined ? {} : { storage }), onNotice };
    const { validation } = plan;
    this.#validation = validation === null ? null : new Validation(world, model, validation.data, validation);
    const classWeights = options.classWeight === undefined ? null : new ClassWeightTables(tf, model.model, options.classWeight);
    this.#history = new HistorySoFar(this.#logNames());
    this.#early = new EarlyEnd(environment.stopOrders ?? null, {
      ...{ applicationId, onNotice, report },
      phase: phase.name,
      cause: 'a callback has set model.stopTraining',
      keepsOrders: rank === 0,
    });
    this.#checkpointOrder = environment.checkpointOrder ?? new CheckpointOrder(null);
    const parts = { model, plan, progress, strategy: this.#strategy, profile: this.#profile };
    this.#reporter = new FitReporter({ ...parts, tf, summaries, report, onNotice, expectedSteps: () => this.#steps.expectedSteps });
    this.#steps = new FitSteps({ ...parts, world, early: this.#early, checkpointOrder: this.#checkpointOrder, schedule, classWeights });
  }

  #logNames(): string[] {
    const names = this.#model.metricNames;
    return [...names, ...(this.#validation === null ? [] : names.map((name) => `val_${name}`))];
  }

  async run(): Promise<FitHistory> {
    const { isOver, data } = await this.#begin();
    if (!isOver) {
      await this.#compareData();
      this.#checkMemory();
      this.#steps.open(data);
      this.#reporter.describe();
      this.#reporter.reportLostStates();
    }
    await this.#beginCallbacks();
    this.#reporter.start();
    // If an earlier generation decided to end early, this run also ends at the step that was chosen then.
    await this.#steps.agree();
    const { open } = this.#history;
    if (open !== null && open.epoch < this.#progress.epoch) {
      // The checkpoint includes this epoch's last step, but validation and callbacks have not run for this epoch yet.
      await this.#runEpoch(open.epoch);
    }
    while (this.#progress.epoch < this.#plan.epochs && !isOver && !this.#early.isDecided) {
      await this.#runEpoch(this.#progress.epoch);
    }
    await this.#finish();
    await this.#callbacks.each((callback) => callback.onTrainEnd?.({}));
    const { epoch, logs, endedEarly } = this.#history;
    return { epoch, history: logs, steps: this.#progress.step, endedEarly };
  }

  /**
   * Restores the phase's newest checkpoint.
   * @returns whether the phase is complete, and the position in the dataset.
   */
  async #begin(): Promise<{ readonly isOver: boolean; readonly data: Json | undefined }> {
    const { generation, summaries } = this.#environment;
    const position = await this.#strategy.begin();
    let isOver = false;
    if (position !== null) {
      this.#progress.resume(position);
      this.#history.restore(position.history);
      isOver = position.final && (this.#history.endedEarly !== null || position.epoch >= this.#plan.epochs);
    }
    await this.#early.begin(isOver ? this.#history.endedEarly : null);
    if (!isOver && (this.#progress.step > 0 || generation > 1)) {
      summaries?.resumeFrom(this.#progress.globalStep + 1);
    }
    return { isOver, data: position?.data };
  }

  async #compareData(): Promise<void> {
    const { data } = this.#plan;
    const { peers, rank } = this.#strategy;
    const difference = isDataset(data) ? null : await differingData(this.#environment.tf, peers, data as TrainingData);
    if (difference !== null && rank === 0) {
      this.#onNotice(difference);
    }
  }

  /** Warns if the estimated memory exceeds the container's memory. Only rank 0 warns, because all ranks train the same model. */
  #checkMemory(): void {
    const { memoryMb = null, checkpoints } = this.#environment;
    const { rank, worldSize } = this.#strategy;
    if (memoryMb === null || rank > 0) {
      return;
    }
    const estimate = estimateMemory({
      ...sizesOf(this.#model, this.#plan.batchSize ?? 0),
      resident: process.memoryUsage.rss(),
      slots: slotsOf(this.#model.optimizer),
      worldSize,
      writesCheckpoints: checkpoints !== null,
    });
    const warning = memoryWarning(estimate, memoryMb);
    if (warning !== null) {
      this.#onNotice(warning, 'memory');
    }
  }

  async #beginCallbacks(): Promise<void> {
    const { epochs, batchSize } = this.#plan;
    this.#callbacks.setModel(this.#model.model, {
      epochs,
      initialEpoch: this.#progress.epoch,
      batchSize: batchSize ?? 0,
      doValidation: this.#validation !== null,
      metrics: this.#logNames(),
    });
    await this.#callbacks.each((callback) => callback.onTrainBegin?.({}));
    this.#model.stopTraining = false;
  }

  /** Runs the epoch from its current position to its end, or until training ends early. */
  async #runEpoch(epoch: number): Promise<void> {
    const { clock } = this.#profile;
    const { metricNames } = this.#model;
    await this.#callbacks.each((callback) => callback.onEpochBegin?.(epoch, {}));
    const means = this.#history.begin(epoch, metricNames.length);
    try {
      for (let batch = this.#batchesOfEpoch(); this.#progress.epoch === epoch && !this.#early.isDecided; batch++) {
        await this.#runStep(epoch, batch, means);
      }
      clock.enter('compute');
      const logs = logsOf(metricNames, means.read());
      clock.enter('other');
      Object.assign(logs, await this.#validate());
      this.#reporter.reportSlowSteps();
      // Each callback gets its own copy, because some callbacks, such as tf.CustomCallback, modify the logs.
      await this.#callbacks.each((callback) => callback.onEpochEnd?.(epoch, { ...logs }));
      this.#history.add(epoch, logs);
      this.#reporter.printEpoch(epoch, logs);
      await this.#steps.agree();
    } finally {
      this.#history.end();
    }
  }

  /**
   * Returns the number of steps already taken in the current epoch, or 0 if the number is unknown, as it is for a batched dataset without
   * `stepsPerEpoch`.
   */
  #batchesOfEpoch(): number {
    const { stepsPerEpoch, batchSize, accumulate } = this.#plan;
    const { step, examples } = this.#progress;
    if (stepsPerEpoch !== null) {
      return step % stepsPerEpoch;
    }
    return batchSize === null ? 0 : Math.ceil(examples / (batchSize * accumulate * this.#strategy.worldSize));
  }

  async #runStep(epoch: number, batch: number, means: EpochMeans): Promise<void> {
    const { clock } = this.#profile;
    await this.#callbacks.each((callback) => callback.onBatchBegin?.(batch, {}));
    const step = await this.#steps.take();
    clock.enter('compute');
    means.add(step.values, step.covered);
    clock.enter('other');
    this.#environment.onProgress?.({ step: this.#progress.globalStep, epoch, epochs: this.#plan.epochs });
    await this.#afterStep(step, batch);
  }

  async #afterStep(step: FitStep, batch: number): Promise<void> {
    const { clock } = this.#profile;
    const { checkpoints, summaries } = this.#environment;
    const { worldSize } = this.#strategy;
    const progress = this.#progress;
    const isLast = progress.epoch >= this.#plan.epochs || this.#early.isDecided;
    const read = () => {
      const interrupted = clock.enter('compute');
      const numbers = step.values.read();
      clock.enter(interrupted);
      return numbers;
    };
    this.#reporter.afterStep(step, read, isLast);
    const isCheckpointDue = !isLast && checkpoints !== null && (step.isCheckpointOrdered || progress.isCheckpointDue(checkpoints));
    if (worldSize > 1 || progress.step % LOSS_EVERY_STEPS === 0 || progress.step === 1 || isCheckpointDue || isLast) {
      this.#divergence.checkLoss(read()[0], progress.globalStep);
    }
    this.#reporter.reportIfDue(read);
    await this.#strategy.afterStep(() => this.#position(false));
    // `#finish` writes the last checkpoint.
    if (isCheckpointDue && this.#divergence.checkWeights(progress.globalStep)) {
      clock.enter('checkpoint');
      // A run that resumes from this checkpoint must find the summaries from all earlier steps.
      void summaries?.flush();
      this.#checkpointOrder.taken();
      await this.#strategy.checkpoint(await this.#position(false));
      clock.enter('other');
    }
    await this.#callbacks.batchEnd({ batch, step: progress.step, size: step.used }, this.#model.metricNames, read);
    this.#early.afterStep(this.#model, progress.globalStep, worldSize === 1);
  }

  async #validate(): Promise<Record<string, number>> {
    if (this.#validation === null) {
      return {};
    }
    const { clock } = this.#profile;
    clock.enter('validation');
    const means = await this.#validation.run();
    clock.enter('other');
    this.#reporter.validated(means);
    return logsOf(this.#model.metricNames, means, 'val_');
  }

  async #finish(): Promise<void> {
    const { summaries, checkpoints, report, onProgress } = this.#environment;
    const { globalStep } = this.#progress;
    this.#history.endedEarly = this.#early.isDecided ? this.#early.reason : null;
    if (checkpoints !== null) {
      report({ type: 'last-step', step: globalStep });
    }
    this.#reporter.reportLast();
    await this.#early.announce(globalStep);
    summaries?.endSession(true);
    await this.#strategy.finish(await this.#position(true), summaries?.flush() ?? Promise.resolve());
    this.#progress.end();
    onProgress?.(null);
  }

  async #position(final: boolean): Promise<TrainingPosition> {
    return {
      ...this.#progress.position,
      iterations: this.#model.optimizer.iterations,
      final,
      ...(final && !this.#divergence.checkWeights(this.#progress.globalStep) ? { diverged: true } : {}),
      data: await this.#steps.dataPosition(),
      history: this.#history.toJson(),
    };
  }

  async dispose(): Promise<void> {
    this.#strategy.dispose();
    await this.#steps.dispose();
  }
}

/** Removes options that are null. As in `model.fit`, they have no effect. */
function withoutNulls(options: FitOptions): FitOptions {
  const isPlain = options !== null && Object.getPrototypeOf(options) === Object.prototype;
  return isPlain ? Object.fromEntries(Object.entries(options).filter(([, value]) => value !== null)) : options;
}

function standardOptions(tf: typeof tfjs, options: FitOptions): FitOptions {
  const sampleWeight = options?.sampleWeight;
  return sampleWeight === undefined ? options : { ...options, sampleWeight: columnOf(tf, sampleWeight, 'sampleWeight') };
}
