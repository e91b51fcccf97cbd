import type * as tfjs from '@tensorflow/tfjs';
import type { Column } from '../../contract/encoding/idx.ts';
import {
  checkOptionValues,
  isAnything,
  isFiniteNumber,
  isFlag,
  isFunction,
  isFunctionOrNumber,
  isObject,
  isOneOf,
  isPositiveNumber,
  isTextNotEmpty,
  isWhole,
  isWholeOrInfinite,
  type OptionRules,
} from '../../platform/check-options.ts';
import { TonyError } from '../../platform/errors.ts';
import type { Json } from '../../platform/json-value.ts';
import { countExamples, type TrainingData } from '../data/data.ts';
import { BATCH_SIZE, batchSizeOf, isDataset, type StandardFitData, type ValidationData } from '../data/fit-data.ts';
import { type ColumnLike, columnOf } from '../data/standard-data.ts';
import { checkBatchSize, checkExampleCount, type StatefulBatches } from '../model/stateful-batches.ts';
import type { Placement } from '../strategy/placement.ts';
import { checkStepOptions, type StepOptions } from '../strategy/step-options.ts';
import type { FitCallbacks } from './callbacks.ts';
import type { ClassWeight } from './example-weights.ts';
import type { LearningRate } from './learning-rate.ts';
import type { RestoreBest } from './state/best-weights.ts';
import type { ValidationOptions } from './validation.ts';

export interface FitOptions extends StepOptions {
  /**
   * The phase name. Default: `fit-1`, `fit-2`, ... in call order. A restarted program finds the phase's checkpoints by this name. All ranks
   * must use the same name.
   */
  readonly name?: string;
  /** If false, `fit` neither reads nor writes checkpoints, and a restarted program trains this phase from the beginning. */
  readonly checkpoint?: boolean;
  /**
   * Default: 1. For a DataFrame that a Spark program sends, the default and the maximum are the epochs of the Spark program, or Infinity for a
   * stream.
   */
  readonly epochs?: number;
  /** The first epoch of a run that starts without a checkpoint. Default: 0. `fit` treats earlier epochs as complete. */
  readonly initialEpoch?: number;
  /**
   * The number of examples per batch on each rank. Default: 32. In each step, the ranks process `batchSize` * `accumulate` * world size
   * examples in total. Does not apply to batched datasets.
   */
  readonly batchSize?: number;
  /**
   * The number of batches that each rank processes per step. Default: 1. Each rank sums the gradients of its batches before the ranks
   * exchange gradients.
   */
  readonly accumulate?: number;
  /**
   * Whether to shuffle the examples for each epoch, in the same order on all ranks. Default: true. For datasets, call the dataset's
   * `shuffle` instead.
   */
  readonly shuffle?: boolean;
  /** The number of steps per epoch. Applies only to datasets, and is required if the dataset repeats forever. */
  readonly stepsPerEpoch?: number;
  /** The seed for the data order and for dropout masks. Runs with the same seed give the same result. */
  readonly seed?: number;
  /**
   * The learning rate for all steps, or a function that returns the rate for each step. Default: the optimizer's own rate. Use a function
   * for schedules, or to scale the rate with the world size: `({ initial, worldSize }) => initial * worldSize`.
   */
  readonly learningRate?: LearningRate;
  /**
   * The data to evaluate after each epoch: tensors, arrays with a shape, a dataset, or `[x, y]`. Each rank evaluates a share of the data.
   * The results appear as `val_loss` and `val_<metric>` in logs and history, as in Keras, and as `val/loss` and `val/<metric>` in the job's
   * metrics and in summaries.
   */
  readonly validationData?: ValidationData;
  /**
   * The fraction of the examples to use only for validation, taken from the end of the data. Cannot be combined with `validationData`, and
   * does not apply to datasets.
   */
  readonly validationSplit?: number;
  /** The number of examples per rank and validation step. Default: `batchSize`. */
  readonly validationBatchSize?: number;
  /** The number of validation batches per rank. Applies only to datasets. */
  readonly validationSteps?: number;
  /** The weight of each class's examples in the loss: `{ 0: 1, 1: 8 }`. */
  readonly classWeight?: ClassWeight;
  /** The weight of each example in the loss. Does not apply if a dataset or `prepare` supplies weights with each batch. */
  readonly sampleWeight?: ColumnLike;
  /**
   * How to handle a NaN or infinite loss or weight. With `stop`, the default, `fit` throws TRAINING_DIVERGED on all ranks. With `continue`,
   * training continues, but a restarted program never resumes from a checkpoint with such values.
   */
  readonly onNaN?: OnNaN;
  /** With 1 or 2, rank 0 prints a line for each epoch. With 0, the default, `fit` prints nothing. */
  readonly verbose?: 0 | 1 | 2;
  readonly summaries?: FitSummaries;
  readonly callbacks?: FitCallbacks | readonly FitCallbacks[];
  /**
   * State of the callbacks, such as counters: an object with JSON values, which the callbacks change. Checkpoints contain it. When training
   * resumes, `fit` writes the stored values into the same object, after `onTrainBegin`.
   */
  readonly state?: Record<string, Json>;
  /** Variables of the callbacks, such as moving averages of the weights, by name. Checkpoints contain them. All ranks start with rank 0's. */
  readonly variables?: Readonly<Record<string, tfjs.Variable>>;
  /**
   * Whether the model has the weights of the best epoch after training, and not those of the last one. `true` compares `val_loss`, or `loss`
   * without validation data. A name, or `{ monitor, mode }`, selects another value. Default: false.
   */
  readonly restoreBest?: RestoreBest;
  /**
   * Whether each step runs as one compiled TensorFlow graph. Default: if the model consists of layers, losses and metrics of TensorFlow.js
   * that compute the same in each step, and TensorFlow runs on a CPU. With `true`, the program states that also its own layers, losses and
   * metrics run the same operations, with the same constants, in each step. With `false`, each operation runs on its own.
   */
  readonly compile?: boolean;
  /** Assigns variables to parameter servers. */
  readonly placement?: Placement;
}

export type OnNaN = 'stop' | 'continue';

/** Options for summaries. Rank 0 writes the summaries, together with the hyperparameters and the model. */
export interface FitSummaries {
  /** The interval, in steps, at which rank 0 writes loss and metrics. Default: 10. Rank 0 always writes the first and the last step. */
  readonly everySteps?: number;
  /** Whether to write a histogram of each weight at the beginning and after each epoch. Default: false. */
  readonly histograms?: boolean;
}

/** The validated FitOptions, including defaults. */
export interface FitPlan {
  readonly data: StandardFitData;
  readonly epochs: number;
  readonly initialEpoch: number;
  /** The number of examples per batch on each rank, or null to use the dataset's own batches. */
  readonly batchSize: number | null;
  readonly accumulate: number;
  readonly shuffle: boolean;
  readonly stepsPerEpoch: number | null;
  readonly seed: number;
  /** For data in memory, the number of examples at the beginning of the data to train on, or undefined for all. */
  readonly examples: number | undefined;
  readonly validation: (ValidationOptions & { readonly data: ValidationData }) | null;
  readonly onNaN: OnNaN;
  readonly printsEpochs: boolean;
  readonly summaryEverySteps: number;
  readonly histograms: boolean;
  /** Null: if the model allows it. */
  readonly compile: boolean | null;
  readonly stepOptions: StepOptions;
}

const SUMMARY_EVERY_STEPS = 10;

const OPTIONS: OptionRules<FitOptions> = {
  accumulate: isWhole(1),
  batchSize: isWhole(1),
  callbacks: (value) => (Array.isArray(value) ? null : isObject(value)),
  checkpoint: isFlag,
  classWeight: isAnything,
  clipNorm: isPositiveNumber,
  clipValue: isPositiveNumber,
  compile: isFlag,
  epochs: isWholeOrInfinite(1),
  initialEpoch: isWhole(0),
  learningRate: isFunctionOrNumber,
  name: isTextNotEmpty,
  onNaN: isOneOf('stop', 'continue'),
  placement: isFunction,
  restoreBest: (value) => (typeof value === 'boolean' || typeof value === 'string' ? null : isObject(value)),
  sampleWeight: isAnything,
  seed: isWhole(0),
  shuffle: isFlag,
  state: isObject,
  stepsPerEpoch: isWhole(1),
  summaries: isObject,
  syncBatchNorm: isFlag,
  validationBatchSize: isWhole(1),
  validationData: isAnything,
  validationSplit: isFiniteNumber,
  validationSteps: isWhole(1),
  variables: isObject,
  verbose: isOneOf(0, 1, 2),
  verifyEverySteps: isWhole(0),
};

const SUMMARY_OPTIONS: OptionRules<FitSummaries> = { everySteps: isWhole(1), histograms: isFlag };

/** The `model.fit` and `model.fitDataset` options that `cluster.fit` does not support, each with a hint for the error message. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  batchesPerEpoch: 'use stepsPerEpoch instead',
  validationBatches: 'use validationSteps instead',
  yieldEvery: 'omit it, because fit yields after each step',
};

/**
 * Validates the options and adds defaults.
 * @throws TonyError USAGE or DATA_INVALID for invalid options or data.
 */
export function planFit(given: StandardFitData, options: FitOptions): FitPlan {
  checkNames(options);
  const { sampleWeight, validationSplit, stepsPerEpoch, summaries } = options;
  const { clipNorm, clipValue, verifyEverySteps, syncBatchNorm } = options;
  refuseForDatasets({ sampleWeight, validationSplit }, isDataset(given));
  refuseForExamples({ stepsPerEpoch }, isDataset(given));
  const data = sampleWeight === undefined ? given : { ...(given as TrainingData), sampleWeight: sampleWeight as Column };
  const batchSize = batchSizeOf(data, options.batchSize);
  const stepOptions = { clipNorm, clipValue, verifyEverySteps, syncBatchNorm };
  const examples = validationSplit === undefined ? undefined : splitAt(data as TrainingData, validationSplit);
  return {
    data,
    epochs: options.epochs ?? 1,
    initialEpoch: options.initialEpoch ?? 0,
    batchSize,
    accumulate: options.accumulate ?? 1,
    shuffle: options.shuffle ?? true,
    stepsPerEpoch: stepsPerEpoch ?? null,
    seed: options.seed ?? 1,
    examples,
    validation: planValidation(data, examples, options),
    onNaN: options.onNaN ?? 'stop',
    printsEpochs: (options.verbose ?? 0) > 0,
    summaryEverySteps: summaries?.everySteps ?? SUMMARY_EVERY_STEPS,
    histograms: summaries?.histograms ?? false,
    compile: options.compile ?? null,
    stepOptions: checkStepOptions(Object.fromEntries(Object.entries(stepOptions).filter(([, value]) => value !== undefined))),
  };
}

/** @throws TonyError USAGE or DATA_INVALID if the model is stateful, and training would use batches of other sizes. */
export function checkStateful(required: StatefulBatches | null, { data, batchSize, examples }: FitPlan, worldSize: number): void {
  checkBatchSize(required, batchSize);
  if (!isDataset(data)) {
    checkExampleCount(required, examples ?? countExamples(data as TrainingData), worldSize, 'the data');
  }
}

function checkNames(options: FitOptions): void {
  if (typeof options !== 'object' || options === null || Array.isArray(options) || 'dataId' in options) {
    throw new TonyError('USAGE', 'the third argument of fit is not an options object', {
      hint: 'Pass inputs and targets together: cluster.fit(model, { x, y }, { epochs: 2 }).',
    });
  }
  checkOptionValues('fit', options, OPTIONS, ELSEWHERE);
  checkOptionValues("fit's summaries", options.summaries ?? {}, SUMMARY_OPTIONS);
}

function planValidation(data: StandardFitData, examples: number | undefined, options: FitOptions): FitPlan['validation'] {
  const { batchSize = BATCH_SIZE, validationData, validationBatchSize, validationSteps } = options;
  const size = validationBatchSize ?? batchSize;
  if (validationData === undefined) {
    refuseForExamples({ validationSteps }, false);
    return examples === undefined ? null : { data, batchSize: size, from: examples };
  }
  if (examples !== undefined) {
    throw new TonyError('USAGE', 'validationData and validationSplit cannot be combined');
  }
  refuseForExamples({ validationSteps }, isDataset(validationData));
  return {
    data: validationData,
    batchSize: size,
    ...(validationSteps === undefined ? {} : { batches: validationSteps }),
  };
}

/** Returns the number of examples to train on. As in model.fit, the remaining examples at the end are used for validation. */
function splitAt(data: TrainingData, fraction: number): number {
  if (!(fraction > 0 && fraction < 1)) {
    throw new TonyError('USAGE', `validationSplit is ${fraction}, but must be above 0 and below 1`);
  }
  const count = countExamples(data);
  const first = Math.floor(count * (1 - fraction));
  if (first === 0 || first === count) {
    throw new TonyError(
      'DATA_INVALID',
      `validationSplit ${fraction} of ${count} examples leaves no examples for training or for validation`,
    );
  }
  return first;
}

function refuseForDatasets(options: Readonly<Record<string, unknown>>, isForDataset: boolean): void {
  for (const [name, value] of Object.entries(options)) {
    if (isForDataset && value !== undefined) {
      throw new TonyError('USAGE', `${name} does not apply to datasets`, {
        hint: "Put weights into the dataset's elements: { xs, ys, sampleWeight }, and pass validationData.",
      });
    }
  }
}

function refuseForExamples(options: Readonly<Record<string, unknown>>, isForDataset: boolean): void {
  for (const [name, value] of Object.entries(options)) {
    if (!isForDataset && value !== undefined) {
      throw new TonyError('USAGE', `${name} applies only to datasets; other data is used once in each epoch`);
    }
  }
}

/** Removes options that are null. As in `model.fit`, they have no effect. */
export function withoutNulls(options: FitOptions): FitOptions {
  const isPlain = options !== null && Object.getPrototypeOf(options) === Object.prototype;
  return isPlain ? Object.fromEntries(Object.entries(options).filter(([, value]) => value !== null)) : options;
}

export function standardOptions(tf: typeof tfjs, options: FitOptions): FitOptions {
  const sampleWeight = options?.sampleWeight;
  return sampleWeight === undefined ? options : { ...options, sampleWeight: columnOf(tf, sampleWeight, 'sampleWeight') };
}
