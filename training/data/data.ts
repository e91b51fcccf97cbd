import type * as tfjs from '@tensorflow/tfjs';
import type { Column } from '../../contract/encoding/idx.ts';
import { TonyError } from '../../platform/errors.ts';
import { describeValue } from '../../platform/text/describe-value.ts';

/** Training data for `fit`. The first dimension of each column is the number of examples. Every rank has all examples. */
export interface TrainingData {
  readonly x: tfjs.Tensor | Column | readonly (tfjs.Tensor | Column)[];
  readonly y: tfjs.Tensor | Column | readonly (tfjs.Tensor | Column)[];
  /** Weight of each example in the loss. The `fit` option of the same name has the same effect. */
  readonly sampleWeight?: tfjs.Tensor | Column;
  /**
   * Converts a batch's raw values to the model's input, for example by scaling or augmentation. `fit` calls this function within tf.tidy.
   * If the result has example weights, they replace `sampleWeight`.
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
  /** Weight of each example, or null for equal weights. */
  readonly sampleWeight: tfjs.Tensor | null;
}

/**
 * Returns the number of examples.
 * @throws TonyError DATA_INVALID if the columns are empty or have different numbers of examples.
 */
export function countExamples(data: TrainingData): number {
  const { x, y, sampleWeight } = data;
  const columns = [...columnsIn(x), ...columnsIn(y), ...(sampleWeight === undefined ? [] : [sampleWeight])];
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

/** Returns the examples with these indices as tensors. The caller must dispose the tensors or use tf.tidy. */
export function batchOf(tf: typeof tfjs, data: TrainingData, indices: Uint32Array): Batch {
  const take = (columns: readonly (tfjs.Tensor | Column)[]) => columns.map((column) => rowsOf(tf, column, indices));
  const { x, y, sampleWeight } = data;
  const weights = sampleWeight === undefined ? {} : { sampleWeight: rowsOf(tf, sampleWeight, indices) };
  return prepareBatch({ x: take(columnsIn(x)), y: take(columnsIn(y)), ...weights }, data.prepare);
}

export function prepareBatch(raw: RawBatch, prepare: TrainingData['prepare']): Batch {
  const prepared = prepare === undefined ? raw : checkPrepared(prepare(raw));
  const sampleWeight = prepared.sampleWeight ?? raw.sampleWeight ?? null;
  return { x: [prepared.x].flat(), y: [prepared.y].flat(), sampleWeight };
}

function checkPrepared(prepared: unknown): PreparedBatch {
  const isTensors = (value: unknown) => [value].flat().every((each) => typeof each === 'object' && each !== null && 'dataId' in each);
  if (typeof prepared === 'object' && prepared !== null && 'x' in prepared && 'y' in prepared) {
    const { x, y } = prepared;
    if (isTensors(x) && isTensors(y)) {
      return prepared as PreparedBatch;
    }
  }
  throw new TonyError('DATA_INVALID', `prepare returned ${describeValue(prepared)} instead of { x, y } with tensors`, {
    hint: 'Return the new tensors, for example ({ x: [image], y }) => ({ x: image.div(255), y }). prepare cannot be async.',
  });
}

export function columnsIn(columns: TrainingData['x']): readonly (tfjs.Tensor | Column)[] {
  return Array.isArray(columns) ? columns : [columns as tfjs.Tensor | Column];
}

/** Returns the rows with these indices. Rows of an Int32Array become int32, and all others become float32. */
export function rowsOf(tf: typeof tfjs, column: tfjs.Tensor | Column, indices: Uint32Array): tfjs.Tensor {
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
