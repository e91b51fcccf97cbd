import { TonyError } from '../../platform/errors.ts';
import { suggest } from '../../platform/suggest.ts';
import { countExamples, type TrainingData } from '../data/data.ts';
import { BATCH_SIZE, batchSizeOf, isDataset, type StandardFitData, type ValidationData } from '../data/fit-data.ts';
import type { ColumnLike } from '../data/standard-data.ts';
import type { Column } from '../encoding/idx.ts';
import type { Placement } from '../strategy/placement.ts';
import { checkStepOptions, type StepOptions } from '../strategy/step-options.ts';
import type { FitCallbacks } from './callbacks.ts';
import type { ClassWeight } from './example-weights.ts';
import type { LearningRate } from './learning-rate.ts';
import type { ValidationOptions } from './validation.ts';

export interface FitOptions extends StepOptions {
  /**
   * The name of this phase; by default `fit-1`, `fit-2`, ... in the order of the calls. A restarted program uses it to find the checkpoints
   * of the phase. It must be the same on all ranks.
   */
  readonly name?: string;
  /** false: `fit` neither reads nor writes checkpoints, and a restarted program trains this phase from its start. */
  readonly checkpoint?: false;
  readonly epochs?: number;
  /** The number of the first epoch of a run that starts without a checkpoint: this many of `epochs` count as done. */
  readonly initialEpoch?: number;
  /**
   * Examples per rank and step; 32 by default. A step of all ranks processes `batchSize` times the world size. Not for batched datasets.
   */
  readonly batchSize?: number;
  /** Batches per rank and step: their gradients are summed before the exchange. 1 by default. */
  readonly accumulate?: number;
  /** Shuffles the examples for each epoch, in the same order on all ranks; true by default. For datasets, use `shuffle` of the dataset. */
  readonly shuffle?: boolean;
  /** Steps per epoch, independent of the size of the dataset; required for a dataset that `repeat` makes endless. Only for datasets. */
  readonly stepsPerEpoch?: number;
  /** The seed for the order of the data and for dropout masks; equal seeds give equal runs. */
  readonly seed?: number;
  /**
   * A rate for the whole run, or a function that returns the rate before each step. Use a function for schedules and for scaling with a
   * varying world size (`({ initial, worldSize }) => initial * worldSize`). The optimizer's own rate by default.
   */
  readonly learningRate?: LearningRate;
  /**
   * Evaluated after each epoch, one share on each rank: `val_loss` and `val_...` of the metrics in logs, history and summaries. Tensors,
   * arrays with a shape, a dataset, or `[x, y]`.
   */
  readonly validationData?: ValidationData;
  /** Alternative to `validationData`: the last examples, this fraction of the data, are used for validation only. Not for datasets. */
  readonly validationSplit?: number;
  /** Examples per rank and validation step; `batchSize` by default. */
  readonly validationBatchSize?: number;
  /** Validation batches per rank, independent of the size of the dataset. Only for datasets. */
  readonly validationSteps?: number;
  /** The weight of the loss for the examples of each class: `{ 0: 1, 1: 8 }`. */
  readonly classWeight?: ClassWeight;
  /** The weight of the loss for each example. Datasets and `prepare` supply it with each batch instead. */
  readonly sampleWeight?: ColumnLike;
  /** The reaction to a NaN or infinite loss. `stop`, the default: `fit` throws TRAINING_DIVERGED on all ranks. */
  readonly onNaN?: OnNaN;
  /** 1 or 2: rank 0 prints a line for each epoch. 0, the default: no output. */
  readonly verbose?: 0 | 1 | 2;
  readonly summaries?: FitSummaries;
  readonly callbacks?: FitCallbacks | readonly FitCallbacks[];
  /** With parameter servers: assigns variables to servers. */
  readonly placement?: Placement;
}

export type OnNaN = 'stop' | 'continue';

/** Summaries in addition to the hyperparameters and the model; only rank 0 writes them. */
export interface FitSummaries {
  /** The interval, in steps, at which loss and metrics are written, in addition to the first and the last step; 10 by default. */
  readonly everySteps?: number;
  /** Writes a histogram of each weight at the beginning and after each epoch; false by default. */
  readonly histograms?: boolean;
}

/** The validated FitOptions with defaults filled in. */
export interface FitPlan {
  readonly data: StandardFitData;
  readonly epochs: number;
  readonly initialEpoch: number;
  /** null: the batch size of the dataset. */
  readonly batchSize: number | null;
  readonly accumulate: number;
  readonly shuffle: boolean;
  readonly stepsPerEpoch: number | null;
  readonly seed: number;
  /** For data in memory, the number of leading examples to train on; undefined for all. */
  readonly examples: number | undefined;
  readonly validation: (ValidationOptions & { readonly data: ValidationData }) | null;
  readonly onNaN: OnNaN;
  readonly printsEpochs: boolean;
  readonly summaryEverySteps: number;
  readonly histograms: boolean;
  readonly stepOptions: StepOptions;
}

const SUMMARY_EVERY_STEPS = 10;

const OPTIONS = {
  accumulate: true,
  batchSize: true,
  callbacks: true,
  checkpoint: true,
  classWeight: true,
  clipNorm: true,
  clipValue: true,
  epochs: true,
  initialEpoch: true,
  learningRate: true,
  name: true,
  onNaN: true,
  placement: true,
  sampleWeight: true,
  seed: true,
  shuffle: true,
  stepsPerEpoch: true,
  summaries: true,
  syncBatchNorm: true,
  validationBatchSize: true,
  validationData: true,
  validationSplit: true,
  validationSteps: true,
  verbose: true,
  verifyEverySteps: true,
} as const satisfies Record<keyof FitOptions, true>;

const SUMMARY_OPTIONS = { everySteps: true, histograms: true } as const satisfies Record<keyof FitSummaries, true>;

/** Options of `model.fit` and `model.fitDataset` that are named differently here or have no effect. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  batchesPerEpoch: 'it is called stepsPerEpoch here',
  validationBatches: 'it is called validationSteps here',
  yieldEvery: 'leave it out: fit yields after each step',
};

/** @throws TonyError USAGE, DATA_INVALID. */
export function planFit(given: StandardFitData, options: FitOptions): FitPlan {
  checkNames(options);
  const { sampleWeight, validationSplit, stepsPerEpoch, summaries } = options;
  const { clipNorm, clipValue, verifyEverySteps, syncBatchNorm } = options;
  refuseForDatasets({ sampleWeight, validationSplit }, isDataset(given));
  refuseForExamples({ stepsPerEpoch }, isDataset(given));
  const data = sampleWeight === undefined ? given : { ...(given as TrainingData), sampleWeight: sampleWeight as Column };
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
    stepsPerEpoch: stepsPerEpoch === undefined ? null : positive('stepsPerEpoch', stepsPerEpoch),
    seed: options.seed ?? 1,
    examples,
    validation: planValidation(data, examples, options),
    onNaN: oneOf('onNaN', options.onNaN ?? 'stop', ['stop', 'continue']),
    printsEpochs: oneOf('verbose', options.verbose ?? 0, [0, 1, 2]) > 0,
    summaryEverySteps: positive('summaries.everySteps', summaries?.everySteps ?? SUMMARY_EVERY_STEPS),
    histograms: summaries?.histograms ?? false,
    stepOptions: checkStepOptions(Object.fromEntries(Object.entries(stepOptions).filter(([, value]) => value !== undefined))),
  };
}

/** @throws TonyError USAGE for an unknown option. */
function checkNames(options: FitOptions): void {
  if (typeof options !== 'object' || options === null || Array.isArray(options) || 'dataId' in options) {
    throw new TonyError('USAGE', "fit's third argument is not an options object", {
      hint: 'Pass inputs and targets together: cluster.fit(model, { x, y }, { epochs: 2 }).',
    });
  }
  refuseUnknown('fit', options, OPTIONS, ELSEWHERE);
  refuseUnknown("fit's summaries", options.summaries ?? {}, SUMMARY_OPTIONS, {});
}

function refuseUnknown(what: string, given: object, known: object, elsewhere: Readonly<Record<string, string>>): void {
  for (const name of Object.keys(given)) {
    if (Object.hasOwn(known, name)) {
      continue;
    }
    const instead = Object.hasOwn(elsewhere, name) ? elsewhere[name] : undefined;
    const meant = suggest(name, Object.keys(known));
    const hint = instead ?? (meant === undefined ? null : `did you mean ${meant}?`);
    throw new TonyError('USAGE', `${what} has no option ${name}${hint === null ? '' : `: ${hint}`}`, {
      hint: `The options are ${Object.keys(known).join(', ')}.`,
    });
  }
}

function oneOf<T>(name: string, value: T, choices: readonly T[]): T {
  if (!choices.includes(value)) {
    throw new TonyError(
      'USAGE',
      `${name} is ${JSON.stringify(value)}; it must be one of ${choices.map((choice) => JSON.stringify(choice)).join(', ')}`,
    );
  }
  return value;
}

function planValidation(data: StandardFitData, examples: number | undefined, options: FitOptions): FitPlan['validation'] {
  const { batchSize = BATCH_SIZE, validationData, validationBatchSize, validationSteps } = options;
  const size = positive('validationBatchSize', validationBatchSize ?? batchSize);
  if (validationData === undefined) {
    refuseForExamples({ validationSteps }, false);
    return examples === undefined ? null : { data, batchSize: size, from: examples };
  }
  if (examples !== undefined) {
    throw new TonyError('USAGE', 'validationData and validationSplit exclude each other');
  }
  refuseForExamples({ validationSteps }, isDataset(validationData));
  return {
    data: validationData,
    batchSize: size,
    ...(validationSteps === undefined ? {} : { batches: positive('validationSteps', validationSteps) }),
  };
}

/** Like model.fit, reserves the last examples for validation, before any shuffling. */
function splitAt(data: TrainingData, fraction: number): number {
  if (!(fraction > 0 && fraction < 1)) {
    throw new TonyError('USAGE', `validationSplit is ${fraction}; it must be above 0 and below 1`);
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
        hint: 'Put weights into the elements of the dataset: { xs, ys, sampleWeight }, and pass validationData.',
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
