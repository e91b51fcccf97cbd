import type * as tfjs from '@tensorflow/tfjs';
import type { TrainingPosition } from '../../contract/checkpoint/checkpoint-format.ts';
import { TonyError } from '../../platform/errors.ts';
import type { Storage } from '../../storage/storage.ts';
import type { CompiledModel } from '../model/compiled-model.ts';
import type { Peers } from '../ring/peers.ts';
import { type BatchSource, IndexedBatchSource } from './batch-source.ts';
import type { TrainingData } from './data.ts';
import { DatasetBatchSource } from './dataset-batch-source.ts';
import type { InputLists } from './reading/input-lists.ts';
import { Dataset } from './sources/dataset.ts';
import { fromTfDataset } from './sources/sources.ts';
import { type Examples, standardData } from './standard-data.ts';

type AnyDataset = Dataset<unknown> | tfjs.data.Dataset<tfjs.TensorContainer>;

/**
 * Training data for `fit`: examples in memory, or a dataset with elements of the form `{ xs, ys }`. A tf.data dataset must be batched and
 * must yield the same batches on every rank. `fit` batches other datasets if they are not batched.
 */
export type FitData = Examples | readonly [x: Examples['x'], y: Examples['y']] | GivenDataset;

type GivenDataset = AnyDataset | { readonly dataset: AnyDataset; readonly prepare?: NonNullable<TrainingData['prepare']> };

export type ValidationData = FitData;

/** Training data after conversion: examples in columns, or a dataset. */
export type StandardFitData = TrainingData | GivenDataset;

export const BATCH_SIZE = 32;

export interface BatchSourceOptions {
  readonly batchSize: number | undefined;
  readonly shuffle: boolean;
  readonly seed: number;
  /** Number of examples to use, from the start of the data. Applies only to data in memory. Default: all examples. */
  readonly examples?: number;
}

/** Returns the number of examples in each rank's batch, or null if the dataset is already batched. */
export function batchSizeOf(data: FitData, wanted: number | undefined): number | null {
  const dataset = datasetOf(data);
  if (dataset === null || !dataset.isBatched) {
    return wanted ?? BATCH_SIZE;
  }
  if (wanted !== undefined) {
    throw new TonyError('USAGE', 'the dataset is already batched, so fit cannot apply another batch size', {
      hint: 'Remove batchSize, or remove batch().',
    });
  }
  return null;
}

/**
 * Opens the batch source for the data passed to `fit`.
 * @param position the position from the checkpoint, or the beginning.
 */
export function openBatchSource(
  world: {
    readonly tf: typeof tfjs;
    readonly peers: Peers;
    readonly storage?: Storage;
    readonly lists: InputLists;
    readonly onNotice: (message: string) => void;
  },
  { model }: CompiledModel,
  data: StandardFitData,
  options: BatchSourceOptions,
  position: Pick<TrainingPosition, 'epoch' | 'examples' | 'data'>,
): BatchSource {
  const { tf, peers } = world;
  const dataset = datasetOf(data);
  const batchSize = batchSizeOf(data, options.batchSize);
  if (dataset === null) {
    const { rank, worldSize } = peers;
    const where = { rank, worldSize, epoch: position.epoch, examplesUsed: position.examples };
    return new IndexedBatchSource(tf, data as TrainingData, { ...options, batchSize: batchSize ?? BATCH_SIZE, ...where });
  }
  const prepare = prepareOf(data);
  return new DatasetBatchSource(batchSize === null ? dataset : dataset.batch(batchSize), {
    ...world,
    seed: options.seed,
    names: { inputs: model.inputNames, outputs: model.outputNames },
    ...(prepare === undefined ? {} : { prepare }),
    position: position.data ?? null,
  });
}

/**
 * Converts the data to columns or a dataset.
 * @throws TonyError DATA_INVALID if the data has an unsupported form.
 */
export function standardFitData(tf: typeof tfjs, model: tfjs.LayersModel, data: FitData): StandardFitData {
  const given = Array.isArray(data) && data.length === 2 ? { x: data[0], y: data[1] } : data;
  return isDataset(given) ? (given as StandardFitData) : standardData(tf, model, given as Examples);
}

export function prepareOf(data: StandardFitData): TrainingData['prepare'] {
  return 'prepare' in data ? data.prepare : undefined;
}

export function isDataset(data: FitData): boolean {
  return datasetOf(data) !== null;
}

export function datasetOf(data: FitData): Dataset<unknown> | null {
  if (typeof data !== 'object' || data === null) {
    return null;
  }
  const given = 'dataset' in data ? data.dataset : data;
  if (typeof given !== 'object' || given === null) {
    return null;
  }
  if (given instanceof Dataset) {
    return given;
  }
  return 'iterator' in given && typeof given.iterator === 'function'
    ? fromTfDataset(given as tfjs.data.Dataset<tfjs.TensorContainer>)
    : null;
}
