import type * as tfjs from '@tensorflow/tfjs';
import type { TrainingPosition } from '../../contract/checkpoint/checkpoint-format.ts';
import type { Column } from '../../contract/encoding/idx.ts';
import { TonyError } from '../../platform/errors.ts';
import type { Json } from '../../platform/json-value.ts';
import { createRandom, withRandom } from '../../platform/random.ts';
import type { Storage } from '../../storage/storage.ts';
import { CheckpointOrder } from '../checkpoint/checkpoint-order.ts';
import { CheckpointTimer } from '../checkpoint/checkpoint-timer.ts';
import type { StopOrders } from '../checkpoint/stop-order.ts';
import { DatasetBatchSource, type TakenBatch } from '../data/dataset-batch-source.ts';
import { limitEpochs } from '../data/limit-epochs.ts';
import { InputLists } from '../data/reading/input-lists.ts';
import type { Dataset } from '../data/sources/dataset.ts';
import { toTensors } from '../data/transforms/tensors.ts';
import type { Trainable } from '../model/trainables.ts';
import { checkReported } from '../process/check-report.ts';
import { type CustomStepOptions, checkCustomStepOptions } from '../strategy/custom-step-options.ts';
import { LoopState } from '../strategy/loop-state.ts';
import type { LoopContext, LoopStrategy } from '../strategy/loop-strategy.ts';
import { Divergence } from './divergence.ts';
import { EarlyEnd } from './early-end.ts';
import type { FitEnvironment } from './fit.ts';
import { checkLoopOptions, type LoopOptions } from './loop-options.ts';
import { PhaseProgress } from './phase-progress.ts';
import { decodeState, encodeState } from './state/state-json.ts';
import { StepForecast } from './step-forecast.ts';
import type { UnfinishedTraining } from './unfinished-training.ts';

/** A dataset batch in which each array has been replaced by a tensor. */
export type BatchTensors<T> = T extends tfjs.Tensor
  ? T
  : T extends Column | ArrayBufferView | readonly string[] | readonly number[]
    ? tfjs.Tensor
    : T extends readonly (infer Item)[]
      ? BatchTensors<Item>[]
      : T extends object
        ? { readonly [Name in keyof T]: BatchTensors<T[Name]> }
        : T;

export interface LoopStep<T> {
  /** The zero-based iteration number, including iterations before a restart. */
  readonly step: number;
  /** The number of completed passes over the data. */
  readonly epoch: number;
  /** This rank's batch, or null if only other ranks have batches left in this epoch. The loop disposes the batch after the iteration. */
  readonly batch: BatchTensors<T> | null;
  readonly examples: number;
  /** Returns random numbers from 0 to 1 that depend only on the seed, the step and the rank. A restarted program gets the same numbers. */
  readonly random: () => number;
}

export type LoopStepOptions = CustomStepOptions;

export interface LoopEnvironment
  extends Omit<FitEnvironment, 'strategy' | 'storage' | 'stopOrders' | 'memoryMb' | 'summaries' | 'onProgress'> {
  readonly rank: number;
  readonly worldSize: number;
  /** True if all ranks take each step together. False with parameter servers. */
  readonly stepsTogether: boolean;
  readonly openStrategy: (context: LoopContext) => LoopStrategy;
  readonly storage: Storage;
  readonly stopOrders: StopOrders | null;
  readonly onReport: (values: Readonly<Record<string, number>>, step: number) => void;
  readonly onNotice: (message: string) => void;
  readonly unfinished: UnfinishedTraining;
}

/** The part of the loop's state that a checkpoint stores in addition to tensors and the position. */
interface Kept {
  readonly own: Json;
  readonly endedEarly: string | null;
}

const PROGRESS_MS = 1000;

/**
 * A custom training loop with checkpoints. A restarted program resumes with the same weights, optimizer state, position in the data,
 * random numbers and values in `state`. Every rank runs the same loop: `for await (const { step } of loop) { await loop.step(...); }`.
 */
export class TrainingLoop<T, State extends Json> implements AsyncIterable<LoopStep<T>> {
  /** The program's own state, a JSON value. Each checkpoint stores its current value, and a restart restores it. */
  state: State;
  readonly #environment: LoopEnvironment;
  readonly #options: LoopOptions<T, State>;
  readonly #kept: LoopState;
  readonly #strategy: LoopStrategy;
  readonly #early: EarlyEnd;
  readonly #checkpointOrder: CheckpointOrder;
  readonly #checkpointTimer: CheckpointTimer;
  readonly #divergence: Divergence;
  readonly #progress: PhaseProgress;
  #batchSource: DatasetBatchSource | null = null;
  /** The dataset position at which this process resumes, or undefined for the beginning of the dataset. */
  #data: Json | undefined;
  #stopReason: string | null = null;
  #batch: { readonly tensors: BatchTensors<T> | null; readonly taken: TakenBatch } | null = null;
  #forecast: StepForecast | null = null;
  #calls = 0;
  #isOver = false;
  #isRunning = false;
  #reportedAt = 0;

  private constructor(environment: LoopEnvironment, options: LoopOptions<T, State>) {
    checkLoopOptions(options);
    this.#environment = environment;
    this.#options = options;
    this.state = decodeState(encodeState(options.state ?? null, 'state')) as State;
    const { tf, jobId, generation, phase, checkpoints, report, onNotice } = environment;
    this.#progress = new PhaseProgress(phase, options.seed ?? 1);
    this.#kept = new LoopState(tf, options);
    const plan = checkpoints === null ? null : { ...checkpoints, phase };
    this.#strategy = environment.openStrategy({ tf, state: this.#kept, jobId, generation, checkpoints: plan, report, onNotice });
    const floats = this.#kept.variables.filter(({ dtype }) => dtype === 'float32');
    this.#divergence = new Divergence(tf, floats, options.onNaN ?? 'stop', {
      ...{ phase: phase.name, onNotice },
      reports: environment.rank === 0 || !environment.stepsTogether,
    });
    this.#checkpointOrder = environment.checkpointOrder ?? new CheckpointOrder(null);
    this.#checkpointTimer = new CheckpointTimer(environment.rank === 0 ? (checkpoints?.everyMs ?? null) : null, environment.now);
    this.#early = new EarlyEnd(environment.stopOrders, {
      ...{ jobId, onNotice, report },
      phase: phase.name,
      cause: 'the program called stop()',
      keepsOrders: environment.rank === 0,
    });
  }

  /**
   * Opens the loop with the same weights on all ranks. Resumes from this loop's newest valid checkpoint, if one exists.
   * @throws TonyError USAGE, CHECKPOINT_MISMATCH, PEER_LOST, RING_MISMATCH.
   */
  static async open<T, State extends Json>(environment: LoopEnvironment, options: LoopOptions<T, State>): Promise<TrainingLoop<T, State>> {
    const loop = new TrainingLoop(
      environment,
      options?.steps === undefined ? await limitEpochs('loop', options?.data ?? null, options) : options,
    );
    await loop.#begin();
    return loop;
  }

  async #begin(): Promise<void> {
    const position = await this.#strategy.begin();
    let endedEarly: string | null = null;
    if (position !== null) {
      const kept = position.state as unknown as Kept;
      this.#progress.resume(position);
      this.#data = position.data;
      this.state = decodeState(kept.own) as State;
      endedEarly = kept.endedEarly;
      // Without a limit, the loop has ended because its data has ended.
      this.#isOver = position.final && (endedEarly !== null || this.#reachedLimit() || this.#isEndless());
    }
    const known = { stepsPerEpoch: null, stepsOfEpoch: this.#progress.step === 0 ? 0 : null };
    this.#forecast = new StepForecast(this.#progress, this.#limits(), known);
    await this.#early.begin(this.#isOver ? endedEarly : null);
  }

  /** The number of iterations so far, including iterations before a restart. */
  get steps(): number {
    return this.#progress.step;
  }

  /** Why the loop ended before its limit, or null if the loop reached the limit or is still running. */
  get endedEarly(): string | null {
    return this.#early.isDecided ? this.#early.reason : null;
  }

  /**
   * Takes one optimizer step on all ranks, as `cluster.step` does. An iteration may take several steps.
   * @param loss computes the loss of this rank's batch. Only ranks with a batch call this function. Random numbers within `loss`, such as
   *   dropout masks, depend only on the seed, the step, the rank and the call's position within the iteration.
   * @param options `variables`: the variables to train. Default: all trainable variables of this loop. `examples`: the number of examples
   *   in the loss. Default: the batch size.
   * @returns the mean loss over all ranks' examples. With parameter servers, the mean over this rank's examples, or 0 if it has none.
   * @throws TonyError USAGE, RANKS_MISMATCH, TRAINING_DIVERGED, PEER_LOST, RING_MISMATCH.
   */
  async step(loss: (batch: BatchTensors<T>) => tfjs.Scalar, optimizer: tfjs.Optimizer, options: LoopStepOptions = {}): Promise<number> {
    if (!this.#isRunning) {
      throw new TonyError('USAGE', 'loop.step() was called outside the loop', {
        hint: 'Call it within `for await (const step of loop) { ... }`, or use cluster.step().',
      });
    }
    checkCustomStepOptions('loop.step', options);
    this.#check(optimizer);
    const random = createRandom(this.#progress.seed, this.#progress.step, this.#environment.rank, this.#calls++);
    const batch = this.#batch;
    const compute = () => withRandom(random, () => loss(batch?.tensors as BatchTensors<T>));
    const value = await this.#strategy.step(compute, optimizer, {
      variables: options.variables ?? this.#defaultVariables(),
      ...(batch === null ? {} : { examples: batch.taken.count }),
      ...(options.examples === undefined ? {} : { examples: options.examples }),
    });
    this.#divergence.checkLoss(value, this.#progress.globalStep + 1);
    return value;
  }

  #check(optimizer: tfjs.Optimizer): void {
    if (!this.#kept.optimizers.includes(optimizer)) {
      throw new TonyError('USAGE', 'the loop was not created with this optimizer, so checkpoints would lack its state', {
        hint: 'Call cluster.loop({ optimizers: { name: optimizer } }).',
      });
    }
  }

  #defaultVariables(): readonly Trainable[] {
    const ofModels = new Set([...this.#kept.models.values()].flatMap(({ weights }) => weights.map((weight) => weight.read())));
    return [...this.#kept.models.values(), ...this.#kept.variables.filter((variable) => variable.trainable && !ofModels.has(variable))];
  }

  /**
   * Reports values of this iteration to the job's pages and TensorBoard, for example `{ 'generator/loss': 0.5 }`. Call `report` with the
   * same values on every rank, or only on rank 0.
   * @throws TonyError USAGE if a value is not a number.
   */
  report(values: Readonly<Record<string, number>>): void {
    checkReported('loop.report', values);
    this.#environment.onReport(values, this.#progress.globalStep + 1);
    this.#reportedAt = Date.now();
  }

  /** Ends the loop on all ranks after this iteration. One call on any rank is sufficient. */
  stop(reason?: string): void {
    this.#stopReason ??= reason ?? '';
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<LoopStep<T>, void> {
    if (this.#isRunning) {
      throw new TonyError('USAGE', 'the loop is already running', { hint: 'Create a separate loop for each training run.' });
    }
    if (this.#isOver) {
      this.#strategy.dispose();
      this.#progress.end();
      return;
    }
    this.#isRunning = true;
    this.#batchSource = this.#openBatchSource();
    const unfinished = this.#environment.unfinished.begin();
    try {
      await this.#agree();
      while (!this.#reachedLimit() && !this.#early.isDecided && (await this.#begins())) {
        this.#batch = await this.#takeBatch();
        this.#calls = 0;
        const { step, epoch, seed } = this.#progress;
        const random = createRandom(seed, step, this.#environment.rank);
        yield { step, epoch, batch: this.#batch?.tensors ?? null, examples: this.#batch?.taken.count ?? 0, random };
        await this.#completeStep();
        unfinished.at({
          step: this.#progress.globalStep,
          epoch: this.#progress.epoch,
          epochs: Number.isFinite(this.#options.epochs) ? (this.#options.epochs as number) : null,
        });
      }
      await this.#finish();
      this.#isOver = true;
    } finally {
      unfinished.end();
      this.#isRunning = false;
      this.#releaseBatch();
      this.#strategy.dispose();
      await this.#batchSource?.close();
    }
  }

  #limits(): { readonly steps: number; readonly epochs: number } {
    const { data, steps, epochs } = this.#options;
    const none = Number.POSITIVE_INFINITY;
    return { steps: steps ?? none, epochs: epochs ?? (data !== undefined && steps === undefined ? 1 : none) };
  }

  #reachedLimit(): boolean {
    const { steps, epochs } = this.#limits();
    return this.#progress.step >= steps || this.#progress.epoch >= epochs;
  }

  #isEndless(): boolean {
    const { steps, epochs } = this.#limits();
    return !Number.isFinite(steps) && !Number.isFinite(epochs);
  }

  /** Waits for the next pass over the data, if one is about to begin. Returns false if the data has ended. */
  async #begins(): Promise<boolean> {
    return this.#batchSource === null || (await this.#batchSource.begin(() => this.#strategy.stored()));
  }

  #openBatchSource(): DatasetBatchSource | null {
    const { tf, storage, phase, onNotice } = this.#environment;
    const { data } = this.#options;
    if (data === undefined) {
      return null;
    }
    const position = this.#data ?? null;
    const lists = (this.#environment.lists ?? InputLists.ofJob()).view({ phase: phase.name });
    const world = { tf, peers: this.#strategy.peers, storage, lists, onNotice };
    return new DatasetBatchSource(data as Dataset<unknown>, { ...world, seed: this.#progress.seed, countExamples, position });
  }

  async #takeBatch(): Promise<{ tensors: BatchTensors<T> | null; taken: TakenBatch } | null> {
    if (this.#batchSource === null) {
      return null;
    }
    const taken = await this.#batchSource.take();
    const { tf } = this.#environment;
    const tensors = taken.count === 0 ? null : (toTensors(tf, taken.element) as BatchTensors<T>);
    return { tensors, taken };
  }

  #releaseBatch(): void {
    this.#environment.tf.dispose((this.#batch?.tensors ?? []) as tfjs.TensorContainer);
    this.#batch?.taken.release();
    this.#batch = null;
  }

  async #completeStep(): Promise<void> {
    const { checkpoints, report } = this.#environment;
    const endsEpoch = this.#batch?.taken.ended === true;
    this.#progress.advance(0, endsEpoch);
    this.#forecast?.afterStep(endsEpoch);
    this.#releaseBatch();
    if (Date.now() - this.#reportedAt >= PROGRESS_MS) {
      this.#reportedAt = Date.now();
      report({ type: 'progress', step: this.#progress.globalStep, total: this.#forecast?.total, metrics: {} });
    }
    await this.#strategy.afterStep(() => this.#positionOf(false));
    const isWanted = (await this.#agree()) || this.#batchSource?.needsCheckpoint === true;
    const isLast = this.#reachedLimit() || this.#early.isDecided;
    const isDue = !isLast && checkpoints !== null && (isWanted || this.#progress.isCheckpointDue(checkpoints));
    if (isDue) {
      this.#checkpointTimer.restart();
    }
    if (isDue && this.#divergence.checkWeights(this.#progress.globalStep)) {
      this.#checkpointOrder.taken();
      await this.#strategy.checkpoint(() => this.#positionOf(false));
    }
    this.#early.afterStep(this.#stopReason !== null, this.#progress.globalStep, this.#environment.worldSize === 1);
  }

  /** Decides together with the other ranks whether the loop ends. Returns true if any rank asks for a checkpoint. */
  async #agree(): Promise<boolean> {
    const wish = this.#early.wish(this.#stopReason !== null, this.#progress.globalStep, this.#stopReason || null);
    const { end, checkpoint } = await this.#strategy.agree(wish, this.#checkpointOrder.isGiven || this.#checkpointTimer.isDue);
    if (end !== null) {
      this.#early.decide(end);
    }
    return checkpoint;
  }

  async #positionOf(final: boolean): Promise<TrainingPosition> {
    const data = await this.#batchSource?.position();
    const kept: Kept = { own: encodeState(this.state ?? null, 'loop.state'), endedEarly: final ? this.endedEarly : null };
    return {
      ...this.#progress.position,
      iterations: 0,
      final,
      ...(final && !this.#divergence.checkWeights(this.#progress.globalStep) ? { diverged: true } : {}),
      ...(data === undefined ? {} : { data }),
      state: kept as unknown as Json,
    };
  }

  async #finish(): Promise<void> {
    await this.#strategy.finish(() => this.#positionOf(true), this.#early.announce(this.#progress.globalStep));
    this.#progress.end();
  }
}

function countExamples(element: unknown): number {
  if (element === null) {
    throw new TonyError('DATA_INVALID', 'an element of the dataset is null', { hint: 'Give missing values a default in a map.' });
  }
  if (typeof element !== 'object') {
    return 1;
  }
  if ('shape' in element) {
    return (element.shape as readonly number[])[0] ?? 1;
  }
  if (Array.isArray(element) || ArrayBuffer.isView(element)) {
    return (element as unknown as ArrayLike<unknown>).length;
  }
  const [first] = Object.values(element);
  return countExamples(first ?? 0);
}
