import type * as tfjs from '@tensorflow/tfjs';
import { formatMemory } from '../../conf/values/units.ts';
import type { TrainingPosition } from '../../contract/checkpoint/checkpoint-format.ts';
import { estimateMemory, inMemory, type MemoryEstimate, type MemoryNeeds, suggested } from '../../contract/checkpoint/memory-estimate.ts';
import type { Report } from '../../contract/process/task-context.ts';
import type { SummaryWriter } from '../../contract/summary/summary.ts';
import { TonyError } from '../../platform/errors.ts';
import type { Json } from '../../platform/json-value.ts';
import type { Storage } from '../../storage/storage.ts';
import { CheckpointOrder } from '../checkpoint/checkpoint-order.ts';
import { CheckpointTimer } from '../checkpoint/checkpoint-timer.ts';
import type { Phase } from '../checkpoint/phases.ts';
import type { StopOrders } from '../checkpoint/stop-order.ts';
import type { TrainingData } from '../data/data.ts';
import { datasetOf, type FitData, isDataset, standardFitData } from '../data/fit-data.ts';
import { limitEpochs } from '../data/limit-epochs.ts';
import { InputLists } from '../data/reading/input-lists.ts';
import { differingData } from '../data/same-data.ts';
import { type CompiledModel, inspectModel } from '../model/compiled-model.ts';
import { noticesTo, type OnNotice } from '../process/notices.ts';
import { StepProfile } from '../strategy/profile.ts';
import type { CheckpointPlan, StrategyFactory, TrainingStrategy } from '../strategy/strategy.ts';
import { CallbackList, logsOf } from './callbacks.ts';
import { Divergence } from './divergence.ts';
import { EarlyEnd } from './early-end.ts';
import type { EpochMeans } from './epoch-means.ts';
import { ClassWeightTables } from './example-weights.ts';
import { type FitHistory, HistorySoFar } from './fit-history.ts';
import { checkStateful, type FitOptions, type FitPlan, planFit, standardOptions, withoutNulls } from './fit-options.ts';
import { FitReporter } from './fit-reporter.ts';
import { type FitStep, FitSteps, signalsOf } from './fit-steps.ts';
import { LearningRateSchedule } from './learning-rate.ts';
import { PhaseProgress } from './phase-progress.ts';
import { FitState } from './state/fit-state.ts';
import type { TrainingProgress } from './unfinished-training.ts';
import { Validation } from './validation.ts';

/** Slots per trained weight, by optimizer class name. */
const SLOTS: Readonly<Record<string, number>> = { SGD: 0, Momentum: 1, Adagrad: 1, Adadelta: 2, Adam: 2, Adamax: 2, RMSProp: 2 };

/** Returns a warning if the estimate exceeds the container's memory, otherwise null. */
export function memoryWarning(estimate: MemoryEstimate, containerMb: number): string | null {
  const container = containerMb * 2 ** 20;
  if (estimate.total <= container) {
    return null;
  }
  const { resident, training, activations, overhead, total } = estimate;
  return (
    `training may need ${inMemory(total)} of memory, but the container has ${formatMemory(containerMb)}. The estimate consists of ` +
    `${inMemory(resident)} already in use, ${inMemory(training)} for gradients, optimizer and checkpoints, ` +
    `${inMemory(activations)} for the outputs of layers, and ${inMemory(overhead)} for the runtime. ` +
    `If YARN ends the container, raise \`resources.memory\` to ${suggested(total)}, or reduce the batch size.`
  );
}

/** Estimates the memory of a `fit` call that begins now. @returns a warning if it exceeds the container's memory, otherwise null. */
function memoryWarningFor(
  model: CompiledModel,
  batchSize: number,
  { memoryMb, worldSize, writesCheckpoints }: Pick<MemoryNeeds, 'worldSize' | 'writesCheckpoints'> & { readonly memoryMb: number | null },
): string | null {
  if (memoryMb === null) {
    return null;
  }
  const slots = slotsOf(model.optimizer);
  const resident = process.memoryUsage.rss();
  return memoryWarning(estimateMemory({ ...sizesOf(model, batchSize), resident, slots, worldSize, writesCheckpoints }), memoryMb);
}

/** A custom class has probably one slot for each weight. */
export function slotsOf(optimizer: tfjs.Optimizer): number {
  return SLOTS[optimizer.getClassName()] ?? 1;
}

/** Returns the size in bytes of the weights, and of all layer outputs for one batch. */
export function sizesOf(
  { model, weights, trainable }: CompiledModel,
  batchSize: number,
): Pick<MemoryNeeds, 'weights' | 'trainable' | 'activations'> {
  const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0);
  const outputs = model.layers.flatMap(({ outputShape }) => (Array.isArray(outputShape[0]) ? outputShape : [outputShape]) as number[][]);
  // The first dimension is the batch. A dimension of unknown size, such as a text length, counts as 1.
  const elements = outputs.map((shape) => shape.slice(1).reduce((product, size) => product * (size ?? 1), 1));
  return {
    weights: 4 * sum(weights.map(({ variable }) => variable.size)),
    trainable: 4 * sum(trainable.map(({ size }) => size)),
    activations: 4 * batchSize * sum(elements),
  };
}

export interface FitEnvironment {
  readonly tf: typeof tfjs;
  readonly strategy: StrategyFactory;
  /** The storage that contains the datasets. Default: the job's storage. */
  readonly storage?: Storage;
  /** The lists of the datasets' files. Default: the job's lists. */
  readonly lists?: InputLists;
  readonly jobId: string;
  readonly generation: number;
  readonly phase: Phase;
  readonly checkpoints: Omit<CheckpointPlan, 'phase'> | null;
  /** Stores evaluators' stop orders and the decision to end early. Null if the run does not write checkpoints. */
  readonly stopOrders?: StopOrders | null;
  /** Orders from the executor to store a checkpoint immediately. */
  readonly checkpointOrder?: CheckpointOrder;
  /** The clock that measures the time between checkpoints, in ms. */
  readonly now?: () => number;
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
 * @throws TonyError MODEL_INVALID, DATA_INVALID, TRAINING_DIVERGED, CHECKPOINT_MISMATCH, CHECKPOINT_FAILED, PEER_LOST, RANKS_MISMATCH,
 *   RING_MISMATCH.
 */
export async function fit(
  environment: FitEnvironment,
  model: tfjs.LayersModel,
  data: FitData,
  options: FitOptions = {},
): Promise<FitHistory> {
  const run = new Fit(environment, inspectModel(environment.tf, model), data, await optionsFor(data, withoutNulls(options)));
  try {
    return await run.run();
  } finally {
    await run.dispose();
  }
}

/** Adds the number of epochs if the source of the data sets it. With `stepsPerEpoch`, an epoch is not a pass over the data. */
async function optionsFor(data: FitData, options: FitOptions): Promise<FitOptions> {
  const dataset = datasetOf(data);
  if (dataset?.epochLimit == null || options?.stepsPerEpoch === undefined) {
    return await limitEpochs('fit', dataset, options);
  }
  if ((await dataset.epochLimit.count(new AbortController().signal)) === Number.POSITIVE_INFINITY) {
    throw new TonyError('USAGE', `stepsPerEpoch does not apply to ${dataset.epochLimit.source}, because its micro-batches are the epochs`, {
      hint: 'Remove stepsPerEpoch.',
    });
  }
  return options;
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
  readonly #checkpointTimer: CheckpointTimer;
  readonly #history: HistorySoFar;
  readonly #state: FitState;
  /** True if a callback had ended training when the restored checkpoint was written. */
  #isStopRestored = false;

  constructor(environment: FitEnvironment, model: CompiledModel, data: FitData, options: FitOptions) {
    this.#environment = environment;
    this.#model = model;
    this.#plan = planFit(standardFitData(environment.tf, model.model, data), standardOptions(environment.tf, options));
    const plan = this.#plan;
    const { tf, strategy: factory, storage, jobId, generation, phase, checkpoints, summaries, report } = environment;
    const { rank, worldSize } = factory;
    this.#onNotice = noticesTo(report);
    const onNotice = this.#onNotice;
    const progress = new PhaseProgress(phase, plan.seed, plan.initialEpoch);
    this.#progress = progress;
    this.#callbacks = new CallbackList(options.callbacks);
    const names = { callbacks: this.#callbacks.all, names: this.#logNames() };
    this.#state = new FitState(tf, model, options, names);
    const schedule = options.learningRate === undefined ? null : new LearningRateSchedule(options.learningRate, model.optimizer);
    this.#strategy = factory.open({
      ...{ tf, model, jobId, generation, report, onNotice },
      checkpoints: checkpoints === null ? null : { ...checkpoints, phase },
      stepOptions: plan.stepOptions,
      kept: () => this.#state.variables,
      ...(options.placement === undefined ? {} : { placement: options.placement }),
      signals: signalsOf(worldSize),
      clock: this.#profile.clock,
    });
    const { peers } = this.#strategy;
    checkStateful(model.statefulBatches, plan, worldSize);
    if (this.#state.best !== null && !peers.stepsTogether) {
      throw new TonyError('USAGE', 'restoreBest is not available with parameter servers, because their workers step independently', {
        hint: 'Add an evaluator, and load its best checkpoint: cluster.models.loadCheckpoint("best", model).',
      });
    }
    const reports = rank === 0 || !peers.stepsTogether;
    this.#divergence = new Divergence(tf, model.trainable, plan.onNaN, { phase: phase.name, onNotice, reports });
    const lists = (environment.lists ?? InputLists.ofJob()).view({ phase: phase.name });
    const world = { tf, peers, ...(storage === undefined ? {} : { storage }), lists, onNotice };
    const { validation } = plan;
    this.#validation = validation === null ? null : new Validation(world, model, validation.data, validation);
    const classWeights = options.classWeight === undefined ? null : new ClassWeightTables(tf, model.model, options.classWeight);
    this.#history = new HistorySoFar(this.#logNames());
    this.#early = new EarlyEnd(environment.stopOrders ?? null, {
      ...{ jobId, onNotice, report },
      phase: phase.name,
      cause: 'a callback has set model.stopTraining',
      keepsOrders: rank === 0,
    });
    const order = environment.checkpointOrder ?? new CheckpointOrder(null);
    const timer = new CheckpointTimer(rank === 0 ? (environment.checkpoints?.everyMs ?? null) : null, environment.now);
    this.#checkpointOrder = order;
    this.#checkpointTimer = timer;
    const parts = { model, plan, progress, strategy: this.#strategy, profile: this.#profile };
    this.#reporter = new FitReporter({
      ...parts,
      tf,
      summaries,
      report,
      onNotice,
      expectedSteps: () => this.#steps.expectedSteps,
      reasonNotCompiled: () => this.#steps.reasonNotCompiled,
    });
    const wantsCheckpoint = () => order.isGiven || timer.isDue;
    this.#steps = new FitSteps({ ...parts, world, early: this.#early, wantsCheckpoint, schedule, classWeights });
  }

  #logNames(): string[] {
    const names = this.#model.metricNames;
    return [...names, ...(this.#plan.validation === null ? [] : names.map((name) => `val_${name}`))];
  }

  async run(): Promise<FitHistory> {
    const { isOver, data } = await this.#begin();
    if (!isOver) {
      await this.#compareData();
      this.#warnOfMemory();
      this.#steps.open(data);
      this.#reporter.describe();
      this.#reporter.reportLostStates();
    }
    await this.#beginCallbacks();
    this.#reporter.start();
    await this.#resumeEnd();
    const { open } = this.#history;
    if (open !== null && (open.epoch < this.#progress.epoch || this.#early.isDecided)) {
      // The checkpoint includes this epoch's last step, but validation and callbacks have not run for this epoch yet.
      await this.#runEpoch(open.epoch);
    }
    while (this.#progress.epoch < this.#plan.epochs && !isOver && !this.#early.isDecided && (await this.#steps.begin())) {
      await this.#runEpoch(this.#progress.epoch);
    }
    this.#state.best?.restore();
    await this.#finish();
    await this.#callbacks.each((callback) => callback.onTrainEnd?.({}));
    const { epoch, logs, endedEarly } = this.#history;
    const { best } = this.#state;
    return { epoch, history: logs, steps: this.#progress.step, endedEarly, ...(best === null ? {} : { best: best.best }) };
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
      this.#isStopRestored = this.#state.restore(position.state);
      // Without a maximum, training has ended because its data has ended.
      const { epochs } = this.#plan;
      isOver = position.final && (this.#history.endedEarly !== null || position.epoch >= epochs || !Number.isFinite(epochs));
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

  /** Only rank 0 warns, because all ranks train the same model. */
  #warnOfMemory(): void {
    const { memoryMb = null, checkpoints } = this.#environment;
    const { rank, worldSize } = this.#strategy;
    const warning =
      rank > 0
        ? null
        : memoryWarningFor(this.#model, this.#plan.batchSize ?? 0, { memoryMb, worldSize, writesCheckpoints: checkpoints !== null });
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
    await this.#keeping(this.#progress.step > 0 && this.#callbacks.has('onTrainBegin'), async () => {
      await this.#callbacks.each((callback) => callback.onTrainBegin?.({}));
    });
    this.#model.stopTraining = false;
  }

  /**
   * Ends training at once if an earlier generation has decided so, or if a callback had ended it when the checkpoint was written. With
   * several ranks, training ends one step after the callback's request, as without a restart.
   */
  async #resumeEnd(): Promise<void> {
    const isAlone = this.#strategy.worldSize === 1;
    this.#model.stopTraining = this.#isStopRestored && isAlone;
    await this.#steps.agree();
    this.#model.stopTraining = this.#isStopRestored;
  }

  /**
   * Calls callbacks that have already run before the restart. They may initialise their memory again, but what the checkpoint contains keeps
   * its values.
   */
  async #keeping(isResumed: boolean, call: () => Promise<void>): Promise<void> {
    if (!isResumed) {
      await call();
      return;
    }
    const state = this.#state.toJson(false);
    const restore = await this.#strategy.hold();
    await call();
    await restore();
    this.#state.restore(state);
  }

  /** Runs the epoch from its current position to its end, or until training ends early. */
  async #runEpoch(epoch: number): Promise<void> {
    const { clock } = this.#profile;
    const { metricNames } = this.#model;
    await this.#keeping(this.#history.open?.epoch === epoch && this.#callbacks.has('onEpochBegin'), async () => {
      await this.#callbacks.each((callback) => callback.onEpochBegin?.(epoch, {}));
    });
    const means = this.#history.begin(epoch, metricNames.length);
    try {
      for (let batch = this.#batchesOfEpoch(); this.#progress.epoch === epoch && !this.#early.isDecided; batch++) {
        await this.#runStep(epoch, batch, means);
      }
      clock.enter('compute');
      const logs = logsOf(metricNames, means.read());
      clock.enter('other');
      Object.assign(logs, await this.#validate());
      this.#state.best?.add(epoch, logs);
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
    const { epochs } = this.#plan;
    this.#environment.onProgress?.({ step: this.#progress.globalStep, epoch, epochs: Number.isFinite(epochs) ? epochs : null });
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
    const isCheckpointDue = !isLast && checkpoints !== null && (step.isCheckpointWanted || progress.isCheckpointDue(checkpoints));
    if (worldSize > 1 || progress.step % LOSS_EVERY_STEPS === 0 || progress.step === 1 || isCheckpointDue || isLast) {
      this.#divergence.checkLoss(read()[0], progress.globalStep);
    }
    this.#reporter.reportIfDue(read);
    // A checkpoint contains what the callbacks of its step have changed.
    await this.#callbacks.batchEnd({ batch, step: progress.step, size: step.used }, this.#model.metricNames, read);
    await this.#strategy.afterStep(() => this.#position(false));
    if (isCheckpointDue) {
      this.#checkpointTimer.restart();
    }
    // `#finish` writes the last checkpoint.
    if (isCheckpointDue && this.#divergence.checkWeights(progress.globalStep)) {
      clock.enter('checkpoint');
      // A run that resumes from this checkpoint must find the summaries from all earlier steps.
      void summaries?.flush();
      this.#checkpointOrder.taken();
      await this.#strategy.checkpoint(await this.#position(false, await this.#steps.isStopWanted()));
      clock.enter('other');
    }
    this.#early.afterStep(this.#model.stopTraining, progress.globalStep, worldSize === 1);
  }

  async #validate(): Promise<Record<string, number>> {
    if (this.#validation === null) {
      return {};
    }
    const { clock } = this.#profile;
    clock.enter('validation');
    const means = await this.#validation.run(this.#progress.seed, this.#progress.step);
    clock.enter('other');
    this.#reporter.validated(means);
    return logsOf(this.#model.metricNames, means, 'val_');
  }

  async #finish(): Promise<void> {
    const { summaries, checkpoints, report, onProgress } = this.#environment;
    const { globalStep } = this.#progress;
    if (this.#early.isDecided) {
      await this.#early.shareReason((own) => this.#strategy.shareReason(own));
    }
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

  async #position(final: boolean, stop = false): Promise<TrainingPosition> {
    return {
      ...this.#progress.position,
      iterations: this.#model.optimizer.iterations,
      final,
      ...(final && !this.#divergence.checkWeights(this.#progress.globalStep) ? { diverged: true } : {}),
      data: await this.#steps.dataPosition(),
      history: this.#history.toJson(),
      state: this.#state.toJson(stop),
    };
  }

  async dispose(): Promise<void> {
    this.#state.dispose();
    this.#strategy.dispose();
    await this.#steps.dispose();
  }
}
