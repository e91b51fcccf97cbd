import type * as tfjs from '@tensorflow/tfjs';
import { TonyError } from '../conf/errors.ts';
import type { Column } from './idx.ts';

export type { Column } from './idx.ts';

/** What `fit` trains on: the first dimension counts the examples, and every rank holds (or can reach) all of them. */
export interface TrainingData {
  readonly x: tfjs.Tensor | Column | readonly (tfjs.Tensor | Column)[];
  readonly y: tfjs.Tensor | Column | readonly (tfjs.Tensor | Column)[];
  /** How much the loss of each example counts; `fit` has an option of this name as well. */
  readonly sampleWeight?: tfjs.Tensor | Column;
  /**
   * Turns the raw numbers of a batch into what the model takes (scaling, one-hot, augmentation). Runs within tf.tidy. It may give (other)
   * weights of the examples as well.
   */
  readonly prepare?: (batch: RawBatch) => PreparedBatch;
}

export interface RawBatch {
  readonly x: tfjs.Tensor[];
  readonly y: tfjs.Tensor[];
  readonly sampleWeight?: tfjs.Tensor;
}

export interface PreparedBatch {
  readonly x: tfjs.Tensor | tfjs.Tensor[];
  readonly y: tfjs.Tensor | tfjs.Tensor[];
  readonly sampleWeight?: tfjs.Tensor;
}

export interface Batch {
  readonly x: tfjs.Tensor[];
  readonly y: tfjs.Tensor[];
  /** One number for each example; null: all count the same. */
  readonly sampleWeight: tfjs.Tensor | null;
}

/** @throws TonyError DATA_INVALID when the columns do not have equally many examples, or none. */
export function countExamples(data: TrainingData): number {
  const { x, y, sampleWeight } = data;
  const columns = [...columnsOf(x), ...columnsOf(y), ...(sampleWeight === undefined ? [] : [sampleWeight])];
  const counts = new Set(columns.map(({ shape }) => shape[0] ?? 0));
  const [count] = counts;
  if (count === undefined || counts.size > 1) {
    throw new TonyError('DATA_INVALID', `the columns of the data have different numbers of examples: ${[...counts].join(', ')}`);
  }
  if (count === 0) {
    throw new TonyError('DATA_INVALID', 'the data has no examples');
  }
  return count;
}

/** The examples with these indices as tensors. The caller disposes them (or calls this within tf.tidy). */
export function batchOf(tf: typeof tfjs, data: TrainingData, indices: Uint32Array): Batch {
  const take = (columns: readonly (tfjs.Tensor | Column)[]) => columns.map((column) => rowsOf(tf, column, indices));
  const { x, y, sampleWeight } = data;
  const weights = sampleWeight === undefined ? {} : { sampleWeight: rowsOf(tf, sampleWeight, indices) };
  return prepareBatch({ x: take(columnsOf(x)), y: take(columnsOf(y)), ...weights }, data.prepare);
}

export function prepareBatch(raw: RawBatch, prepare: TrainingData['prepare']): Batch {
  const prepared = prepare?.(raw) ?? raw;
  const sampleWeight = prepared.sampleWeight ?? raw.sampleWeight ?? null;
  return { x: [prepared.x].flat(), y: [prepared.y].flat(), sampleWeight };
}

function columnsOf(columns: TrainingData['x']): readonly (tfjs.Tensor | Column)[] {
  return Array.isArray(columns) ? columns : [columns as tfjs.Tensor | Column];
}

function rowsOf(tf: typeof tfjs, column: tfjs.Tensor | Column, indices: Uint32Array): tfjs.Tensor {
  if (column instanceof tf.Tensor) {
    return tf.gather(column, tf.tensor1d(Int32Array.from(indices), 'int32'));
  }
  const { values, shape } = column as Column;
  const width = shape.slice(1).reduce((product, size) => product * size, 1);
  const isInteger = values instanceof Int32Array;
  const rows = isInteger ? new Int32Array(indices.length * width) : new Float32Array(indices.length * width);
  indices.forEach((example, row) => {
    rows.set(values.subarray(example * width, (example + 1) * width), row * width);
  });
  return tf.tensor(rows, [indices.length, ...shape.slice(1)], isInteger ? 'int32' : 'float32');
}
