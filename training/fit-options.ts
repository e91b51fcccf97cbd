import { TonyError } from '../conf/errors.ts';
import type { FitCallbacks } from './callbacks.ts';
import { countExamples, type TrainingData } from './data.ts';
import type { ClassWeight } from './example-weights.ts';
import { asFitData, BATCH_SIZE, batchSizeOf, type FitData, isDataset, type ValidationData } from './fit-data.ts';
import type { LearningRate } from './learning-rate.ts';
import type { Placement } from './parameter-server/placement.ts';
import { checkStepOptions, type StepOptions } from './step-options.ts';
import type { ValidationOptions } from './validation.ts';

export interface FitOptions extends StepOptions {
  readonly epochs?: number;
  /** What the first epoch is called when there is no checkpoint to go on from: so many of `epochs` are taken for done. */
  readonly initialEpoch?: number;
  /**
   * Examples for each rank in each step; 32 unless told. All ranks together take `batchSize` times the world size. Not for datasets that come
   * in batches.
   */
  readonly batchSize?: number;
  /** Batches of each rank that make a step together: their gradients are added up before they are exchanged. 1 unless told. */
  readonly accumulate?: number;
  /** A new order of the examples in each epoch, the same on all ranks; true unless told. Datasets say it by `shuffle`. */
  readonly shuffle?: boolean;
  /** Steps that make an epoch, however much the dataset has: for one that `repeat` makes endless. Only for datasets. */
  readonly batchesPerEpoch?: number;
  /** Of the order of the data and of dropout masks; equal seeds give equal runs. */
  readonly seed?: number;
  /**
   * A rate for the whole run, or a function that gives it before each step: schedules, and scaling to a world size that varies
   * (`({ initial, worldSize }) => initial * worldSize`). That of the optimizer unless told.
   */
  readonly learningRate?: LearningRate;
  /**
   * Evaluated after each epoch, a share on each rank: `val_loss` and `val_...` of the metrics, in logs, history and summaries. Tensors, arrays
   * with a shape, a dataset, or `[x, y]`.
   */
  readonly validationData?: ValidationData;
  /** In place of it: this fraction of the examples, the last ones, is not trained on but evaluated. Not for datasets. */
  readonly validationSplit?: number;
  /** Examples at a time, on each rank; as `batchSize` unless told. */
  readonly validationBatchSize?: number;
  /** Batches of each rank, however much the dataset has. Only for datasets. */
  readonly validationBatches?: number;
  /** How much the loss of each class's examples counts: `{ 0: 1, 1: 8 }`. */
  readonly classWeight?: ClassWeight;
  /** How much the loss of each example counts. Datasets and `prepare` give it with each batch instead. */
  readonly sampleWeight?: TrainingData['sampleWeight'];
  readonly summaries?: FitSummaries;
  readonly callbacks?: FitCallbacks | readonly FitCallbacks[];
  /** Under parameter servers: which of them holds a variable. */
  readonly placement?: Placement;
}

/** What TensorBoard gets to see beside the hyperparameters and the model; only rank 0 writes it. */
export interface FitSummaries {
  /** Loss and metrics of each so many steps, and of the first and the last one; 10 unless told. */
  readonly everySteps?: number;
  /** How each weight is spread, at the beginning and after each epoch; false unless told. */
  readonly histograms?: boolean;
}

/** FitOptions, checked, with what is not told. */
export interface FitPlan {
  readonly data: FitData;
  readonly epochs: number;
  readonly initialEpoch: number;
  /** null: the dataset's own. */
  readonly batchSize: number | null;
  readonly accumulate: number;
  readonly shuffle: boolean;
  readonly batchesPerEpoch: number | null;
  readonly seed: number;
  /** Of examples at hand, only so many of the first ones are trained on; undefined for all. */
  readonly examples: number | undefined;
  readonly validation: (ValidationOptions & { readonly data: ValidationData }) | null;
  readonly summaryEverySteps: number;
  readonly histograms: boolean;
  readonly stepOptions: StepOptions;
}

const SUMMARY_EVERY_STEPS = 10;

/** @throws TonyError USAGE, DATA_INVALID. */
export function planFit(given: FitData, options: FitOptions): FitPlan {
  const { sampleWeight, validationSplit, batchesPerEpoch, summaries } = options;
  const { clipNorm, clipValue, verifyEverySteps, syncBatchNorm } = options;
  refuseForDatasets({ sampleWeight, validationSplit }, isDataset(given));
  refuseForExamples({ batchesPerEpoch }, isDataset(given));
  const data = sampleWeight === undefined ? given : { ...(given as TrainingData), sampleWeight };
  const batchSize = batchSizeOf(data, options.batchSize === undefined ? undefined : positive('batchSize', options.batchSize));
  const stepOptions = { clipNorm, clipValue, verifyEverySteps, syncBatchNorm };
  const examples = validationSplit === undefined ? undefined : splitAt(data as TrainingData, validationSplit);
  return {
    data,
    epochs: positive('epochs', options.epochs ?? 1),
    initialEpoch: natural('initialEpoch', options.initialEpoch ?? 0),
    batchSize,
    accumulate: positive('accumulate', options.accumulate ?? 1),
    shuffle: options.shuffle ?? true,
    batchesPerEpoch: batchesPerEpoch === undefined ? null : positive('batchesPerEpoch', batchesPerEpoch),
    seed: options.seed ?? 1,
    examples,
    validation: planValidation(data, examples, options),
    summaryEverySteps: positive('summaries.everySteps', summaries?.everySteps ?? SUMMARY_EVERY_STEPS),
    histograms: summaries?.histograms ?? false,
    stepOptions: checkStepOptions(Object.fromEntries(Object.entries(stepOptions).filter(([, value]) => value !== undefined))),
  };
}

function planValidation(data: FitData, examples: number | undefined, options: FitOptions): FitPlan['validation'] {
  const { batchSize = BATCH_SIZE, validationData, validationBatchSize, validationBatches } = options;
  const size = positive('validationBatchSize', validationBatchSize ?? batchSize);
  if (validationData === undefined) {
    refuseForExamples({ validationBatches }, false);
    return examples === undefined ? null : { data, batchSize: size, from: examples };
  }
  if (examples !== undefined) {
    throw new TonyError('USAGE', 'validationData and validationSplit exclude each other');
  }
  refuseForExamples({ validationBatches }, isDataset(asFitData(validationData)));
  return {
    data: validationData,
    batchSize: size,
    ...(validationBatches === undefined ? {} : { batches: positive('validationBatches', validationBatches) }),
  };
}

/** As model.fit: the last examples, before any shuffling. */
function splitAt(data: TrainingData, fraction: number): number {
  if (!(fraction > 0 && fraction < 1)) {
    throw new TonyError('USAGE', `validationSplit is ${fraction}; it must be above 0 and below 1`);
  }
  const count = countExamples(data);
  const first = Math.floor(count * (1 - fraction));
  if (first === 0 || first === count) {
    throw new TonyError('DATA_INVALID', `validationSplit ${fraction} of ${count} examples leaves nothing to train on, or to validate on`);
  }
  return first;
}

function refuseForDatasets(options: Readonly<Record<string, unknown>>, isForDataset: boolean): void {
  for (const [name, value] of Object.entries(options)) {
    if (isForDataset && value !== undefined) {
      throw new TonyError('USAGE', `${name} is not for datasets`, {
        hint: 'Let the elements of the dataset say it: { xs, ys, sampleWeight }; and give validationData.',
      });
    }
  }
}

function refuseForExamples(options: Readonly<Record<string, unknown>>, isForDataset: boolean): void {
  for (const [name, value] of Object.entries(options)) {
    if (!isForDataset && value !== undefined) {
      throw new TonyError('USAGE', `${name} is for datasets: other data is used once in each epoch`);
    }
  }
}

function positive(name: string, value: number): number {
  return atLeast(1, name, value);
}

function natural(name: string, value: number): number {
  return atLeast(0, name, value);
}

function atLeast(least: number, name: string, value: number): number {
  if (!Number.isInteger(value) || value < least) {
    throw new TonyError('DATA_INVALID', `${name} is ${value}; it must be a whole number of at least ${least}`);
  }
  return value;
}
