import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../conf/errors.ts';
import type { Storage } from '../storage/storage.ts';
import type { TrainingPosition } from './checkpoint-format.ts';
import type { CompiledModel } from './compiled-model.ts';
import type { TrainingData } from './data.ts';
import { Dataset } from './datasets/dataset.ts';
import { DatasetFeed } from './datasets/dataset-feed.ts';
import { fromTfDataset } from './datasets/sources.ts';
import { type Feed, IndexedFeed } from './feed.ts';
import type { Peers } from './peers.ts';

type AnyDataset = Dataset<unknown> | tfjs.data.Dataset<tfjs.TensorContainer>;

/**
 * What `fit` can train on: examples that are at hand, or a dataset of `{ xs, ys }`. One that `batch` has not made batches of is batched by
 * `fit`. Datasets of tf.data come in batches, and have to give the same ones on every rank, which each take their share of them.
 */
export type FitData = TrainingData | AnyDataset | { readonly dataset: AnyDataset; readonly prepare?: NonNullable<TrainingData['prepare']> };

/** What training is judged by: as FitData, or `[x, y]` as model.fit takes it. */
export type ValidationData = FitData | readonly [x: TrainingData['x'], y: TrainingData['y']];

export const BATCH_SIZE = 32;

export interface FeedOptions {
  readonly batchSize: number | undefined;
  readonly shuffle: boolean;
  readonly seed: number;
  /** Of examples at hand, only so many of the first ones are used. */
  readonly examples?: number;
}

/** Examples of each rank in each step; null when the dataset alone knows. */
export function batchSizeOf(data: FitData, wanted: number | undefined): number | null {
  const dataset = datasetOf(data);
  if (dataset === null || !dataset.isBatched) return wanted ?? BATCH_SIZE;
  if (wanted !== undefined) {
    throw new TonyError('USAGE', 'the dataset comes in batches: fit cannot give it another batch size', {
      hint: 'Leave batchSize out, or leave batch() out.',
    });
  }
  return null;
}

/** @param position of the checkpoint that training goes on from. */
export function openFeed(
  world: { readonly tf: typeof tfjs; readonly peers: Peers; readonly storage?: Storage; readonly onNotice: (message: string) => void },
  { model }: CompiledModel,
  data: FitData,
  options: FeedOptions,
  position: Pick<TrainingPosition, 'epoch' | 'examples' | 'data'>,
): Feed {
  const { tf, peers } = world;
  const dataset = datasetOf(data);
  const batchSize = batchSizeOf(data, options.batchSize);
  if (dataset === null) {
    const { rank, worldSize } = peers;
    const where = { rank, worldSize, epoch: position.epoch, examplesUsed: position.examples };
    return new IndexedFeed(tf, data as TrainingData, { ...options, batchSize: batchSize ?? BATCH_SIZE, ...where });
  }
  const prepare = prepareOf(data);
  return new DatasetFeed(batchSize === null ? dataset : dataset.batch(batchSize), {
    ...world,
    seed: options.seed,
    names: { inputs: model.inputNames, outputs: model.outputNames },
    ...(prepare === undefined ? {} : { prepare }),
    position: position.data ?? null,
  });
}

export function asFitData(data: ValidationData): FitData {
  return Array.isArray(data) ? { x: data[0], y: data[1] } : (data as FitData);
}

export function prepareOf(data: FitData): TrainingData['prepare'] {
  return 'prepare' in data ? data.prepare : undefined;
}

export function isDataset(data: FitData): boolean {
  return datasetOf(data) !== null;
}

export function datasetOf(data: FitData): Dataset<unknown> | null {
  const given = 'dataset' in data ? data.dataset : data;
  if (given instanceof Dataset) return given;
  return 'iterator' in given && typeof given.iterator === 'function' ? fromTfDataset(given) : null;
}
