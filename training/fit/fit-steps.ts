import type * as tfjs from '@tensorflow/tfjs';
import type { Json } from '../../platform/json-value.ts';
import { createRandom, withRandom } from '../../platform/random.ts';
import { CompiledStep } from '../compiled/compiled-step.ts';
import type { StepInputs } from '../compiled/record-step.ts';
import type { BatchSource, BatchStep } from '../data/batch-source.ts';
import type { Batch } from '../data/data.ts';
import { openBatchSource } from '../data/fit-data.ts';
import type { CompiledModel } from '../model/compiled-model.ts';
import type { StepPart, StepValues } from '../model/step-part.ts';
import type { StepProfile } from '../strategy/profile.ts';
import type { TrainingStrategy } from '../strategy/strategy.ts';
import type { EarlyEnd } from './early-end.ts';
import type { ClassWeightTables } from './example-weights.ts';
import type { FitPlan } from './fit-options.ts';
import type { LearningRateSchedule } from './learning-rate.ts';
import type { PhaseProgress } from './phase-progress.ts';
import { StepForecast } from './step-forecast.ts';
import type { ValidationWorld } from './validation.ts';

export interface FitStepsParts {
  readonly world: ValidationWorld;
  readonly model: CompiledModel;
  readonly plan: FitPlan;
  readonly strategy: TrainingStrategy;
  readonly progress: PhaseProgress;
  readonly profile: StepProfile;
  readonly early: EarlyEnd;
  /** Returns true if this rank asks for a checkpoint after the current step. */
  readonly wantsCheckpoint: () => boolean;
  readonly schedule: LearningRateSchedule | null;
  readonly classWeights: ClassWeightTables | null;
}

export interface FitStep {
  /**
   * The step's mean values: over all ranks' examples if the ranks step together, otherwise over this rank's examples. The caller must read
   * or dispose them.
   */
  readonly values: StepValues;
  /** The number of examples over which `values` are averaged. */
  readonly covered: number;
  /** The number of examples in this step, summed over all ranks. */
  readonly used: number;
  readonly endsEpoch: boolean;
  /** Whether any rank, or the data, asks for a checkpoint. All ranks that step together get the same value. */
  readonly isCheckpointWanted: boolean;
}

/** Returns the number of signals that the ranks exchange in each step; see `FitSteps`. */
export function signalsOf(worldSize: number): number {
  return worldSize === 1 ? 2 : 2 + worldSize;
}

/**
 * Takes the training steps for `fit`. In each step, reads this rank's batches, computes their loss, and lets the strategy apply the
 * gradients. The ranks also agree in each step on whether training ends early.
 */
export class FitSteps {
  readonly #parts: FitStepsParts;
  /**
   * A step's signals. Element 0: the number of ranks that want to stop. Element 1: the number of ranks that ask for a
   * checkpoint. All other elements: each rank's busy time in its previous step, in ms.
   */
  readonly #signals: Float32Array;
  readonly #compiled: CompiledStep;
  #batchSource: BatchSource | null = null;
  #forecast: StepForecast | null = null;

  constructor(parts: FitStepsParts) {
    this.#parts = parts;
    this.#signals = new Float32Array(signalsOf(parts.strategy.worldSize));
    this.#compiled = new CompiledStep(parts.world.tf, parts.model, parts.plan.compile);
  }

  /**
   * Opens the training data.
   * @param data the stored position in the dataset, or undefined to start at the beginning.
   */
  open(data: Json | undefined): void {
    const { world, model, plan, progress } = this.#parts;
    const { batchSize, shuffle, examples } = plan;
    const position = { epoch: progress.epoch, examples: progress.examples, data };
    const options = { batchSize: batchSize ?? undefined, shuffle, seed: progress.seed, ...(examples === undefined ? {} : { examples }) };
    this.#batchSource = openBatchSource(world, model, plan.data, options, position);
    this.#forecast = this.#forecastOf(this.#batchSource);
  }

  /** Must be called before each epoch. Returns false if the data has ended. */
  async begin(): Promise<boolean> {
    const { profile, strategy } = this.#parts;
    profile.clock.enter('input');
    const begins = await (this.#batchSource as BatchSource).begin(() => strategy.stored());
    profile.clock.enter('other');
    return begins;
  }

  /** The position in the dataset to store in a checkpoint, or undefined if the step, epoch and example counts determine the position. */
  dataPosition(): Promise<Json | undefined> | undefined {
    return this.#batchSource?.position();
  }

  /** Why steps run separate operations, or null if they are compiled. */
  get reasonNotCompiled(): string | null {
    return this.#compiled.reason;
  }

  /** The step number expected at the end of this phase, or undefined while it is unknown. */
  get expectedSteps(): number | undefined {
    return this.#forecast?.total;
  }

  #forecastOf({ size }: BatchSource): StepForecast {
    const { plan, progress, strategy } = this.#parts;
    const { batchSize, accumulate, stepsPerEpoch, epochs } = plan;
    const stepsFor = (examples: number): number => Math.ceil(examples / ((batchSize ?? 1) * accumulate * strategy.worldSize));
    const known = stepsPerEpoch ?? (size === undefined ? null : stepsFor(size));
    const resumed = progress.examples === 0 ? 0 : size === undefined ? null : stepsFor(progress.examples);
    const stepsOfEpoch = stepsPerEpoch === null ? resumed : progress.step % stepsPerEpoch;
    return new StepForecast(progress, { epochs, steps: Number.POSITIVE_INFINITY }, { stepsPerEpoch: known, stepsOfEpoch });
  }

  async take(): Promise<FitStep> {
    const { profile, strategy, progress, plan } = this.#parts;
    const { clock } = profile;
    clock.enter('input');
    const batches = await this.#nextBatches();
    const used = batches.reduce((sum, batch) => sum + batch.used, 0);
    let values: StepValues;
    try {
      clock.enter('compute');
      values = await this.#step(batches, used);
    } finally {
      clock.enter('other');
      for (const batch of batches) {
        batch.release();
      }
    }
    const { stepsPerEpoch } = plan;
    const { stepsTogether } = strategy.peers;
    const covered = stepsTogether ? used : batches.reduce((sum, batch) => sum + batch.weight * batch.used, 0);
    const endsEpoch = stepsPerEpoch === null ? batches.some((batch) => batch.ended) : (progress.step + 1) % stepsPerEpoch === 0;
    const isCheckpointWanted = (this.#signals[1] ?? 0) > 0 || this.#batchSource?.needsCheckpoint === true;
    profile.stepTaken();
    progress.advance(used, endsEpoch);
    this.#forecast?.afterStep(endsEpoch);
    return { values, covered, used, endsEpoch, isCheckpointWanted };
  }

  /** Reads one step's `accumulate` batches, or fewer at the end of a pass over the data. */
  async #nextBatches(): Promise<BatchStep[]> {
    const batches: BatchStep[] = [];
    do {
      batches.push(await (this.#batchSource as BatchSource).next());
    } while (batches.length < this.#parts.plan.accumulate && batches.at(-1)?.ended === false);
    return batches;
  }

  async #step(batches: readonly BatchStep[], used: number): Promise<StepValues> {
    const { model, strategy, progress, profile, early, wantsCheckpoint, schedule } = this.#parts;
    const { worldSize, rank, peers } = strategy;
    schedule?.apply({ step: progress.step, epoch: progress.epoch, worldSize });
    const parts = batches.map((batch, index) => this.#partOf(batch, index, used));
    const signals = this.#signals.fill(0);
    const endReason = early.wish(model.stopTraining, progress.globalStep + 1);
    signals[0] = endReason === null ? 0 : 1;
    signals[1] = wantsCheckpoint() ? 1 : 0;
    if (worldSize > 1) {
      signals[2 + rank] = profile.busySinceLast();
    }
    const values = await strategy.step(parts, signals, endReason);
    if (peers.stepsTogether) {
      profile.addBusyTimes(signals.subarray(2));
    }
    this.#endIfSignalled(endReason);
    return values;
  }

  #partOf({ batch: makeBatch, weight, used }: BatchStep, index: number, usedTogether: number): StepPart {
    if (makeBatch === null) {
      return { gradients: null, weight: 0 };
    }
    const { progress, profile, strategy } = this.#parts;
    const { clock } = profile;
    const { seed, step } = progress;
    const random = index === 0 ? createRandom(seed, step, strategy.rank) : createRandom(seed, step, strategy.rank, index);
    const batch = (): StepInputs =>
      withRandom(random, () => {
        const interrupted = clock.enter('input');
        const made = makeBatch();
        const weights = this.#weightsOf(made);
        clock.enter(interrupted);
        return { x: made.x, y: made.y, weights };
      });
    return {
      gradients: (variables, factor) => this.#compiled.run(variables, { batch, weight: factor, random }),
      weight: used === usedTogether ? weight : (weight * used) / usedTogether,
    };
  }

  #weightsOf({ y, sampleWeight }: Batch): (tfjs.Tensor | null)[] {
    const { classWeights, world } = this.#parts;
    const { tf } = world;
    const byClass = classWeights?.of(y) ?? y.map(() => null);
    return byClass.map((weights) => {
      if (weights === null || sampleWeight === null) {
        return weights ?? sampleWeight;
      }
      return tf.mul(weights, tf.reshape(sampleWeight, [-1]));
    });
  }

  /** Decides together with the other ranks, between two steps, whether training ends early. */
  async agree(): Promise<void> {
    const { model, strategy, progress, early } = this.#parts;
    const signals = this.#signals.fill(0);
    const endReason = early.wish(model.stopTraining, progress.globalStep);
    signals[0] = endReason === null ? 0 : 1;
    await strategy.agree(signals, endReason);
    this.#endIfSignalled(endReason);
  }

  #endIfSignalled(ownReason: string | null): void {
    if ((this.#signals[0] ?? 0) > 0) {
      this.#parts.early.decide(ownReason ?? '');
    }
  }

  /** Returns true if a callback of any rank that steps together with this one has ended training. Does not end it. */
  async isStopWanted(): Promise<boolean> {
    const { model, strategy } = this.#parts;
    if (strategy.worldSize === 1 || !strategy.peers.stepsTogether) {
      return model.stopTraining;
    }
    const signals = this.#signals.fill(0);
    signals[0] = model.stopTraining ? 1 : 0;
    await strategy.agree(signals, null);
    return (signals[0] ?? 0) > 0;
  }

  async dispose(): Promise<void> {
    this.#compiled.dispose();
    this.#parts.schedule?.restore();
    this.#parts.classWeights?.dispose();
    await this.#batchSource?.close();
  }
}
