import type * as tfjs from '@tensorflow/tfjs';
import type { Column } from '../../contract/encoding/idx.ts';
import { TonyError } from '../../platform/errors.ts';
import { describeValue, isList } from '../../platform/text/describe-value.ts';
import type { TrainingData } from './data.ts';

export type NumberArray = Column['values'] | Float64Array | Uint16Array | Uint32Array | Uint8ClampedArray;

/** Nested arrays of numbers. The first dimension is the number of examples. */
export type NestedNumbers = readonly number[] | readonly NestedNumbers[];

/** Values of one input, of one target, or of the weights. */
export type ColumnLike = tfjs.Tensor | Column | NumberArray | NestedNumbers;

/** A model's inputs or targets: a single column, a list in the model's order, or an object whose keys are the input or output names. */
export type ColumnsLike = ColumnLike | readonly (tfjs.Tensor | Column)[] | { readonly [name: string]: ColumnLike };

/**
 * Training data in memory, in any form that `fit` accepts. The first dimension is the number of examples. Every rank must have all
 * examples.
 */
export interface Examples {
  readonly x: ColumnsLike;
  readonly y: ColumnsLike;
  /** Weight of each example in the loss. The `fit` option of the same name has the same effect. */
  readonly sampleWeight?: ColumnLike;
  /** See TrainingData. */
  readonly prepare?: TrainingData['prepare'];
}

/**
 * Converts training data to columns.
 * @throws TonyError DATA_INVALID if the data has an unsupported form.
 */
export function standardData(tf: typeof tfjs, model: tfjs.LayersModel, given: Examples): TrainingData {
  const { x, y, sampleWeight, prepare } = checkKind(given);
  return {
    x: columnsOf(tf, x, 'x', model.inputNames),
    y: columnsOf(tf, y, 'y', model.outputNames),
    ...(sampleWeight === undefined ? {} : { sampleWeight: columnOf(tf, sampleWeight, 'sampleWeight') }),
    ...(prepare === undefined ? {} : { prepare }),
  };
}

function checkKind(given: unknown): Examples {
  const hint = 'Pass { x, y }, [x, y], or a dataset, for example from fromGenerator(...) or fromArray(...).';
  const isObject = typeof given === 'object' && given !== null;
  if (isObject && 'dataId' in given) {
    throw new TonyError('DATA_INVALID', 'fit received a tensor instead of inputs and targets', {
      hint: 'Pass both together: cluster.fit(model, { x, y }, options).',
    });
  }
  if (!isObject || (!('x' in given) && !('y' in given))) {
    throw new TonyError('DATA_INVALID', `fit received ${describeValue(given)} instead of inputs and targets`, { hint });
  }
  for (const name of ['x', 'y'] as const) {
    if ((given as Partial<Examples>)[name] === undefined) {
      throw new TonyError('DATA_INVALID', `the data has no ${name}`, { hint });
    }
  }
  return given as Examples;
}

function columnsOf(tf: typeof tfjs, given: ColumnsLike, what: string, names: readonly string[]): (tfjs.Tensor | Column)[] {
  if (Array.isArray(given) && given.length > 0 && given.every((each) => isColumn(tf, each))) {
    return [...given];
  }
  if (typeof given !== 'object' || given === null || isColumn(tf, given) || ArrayBuffer.isView(given) || Array.isArray(given)) {
    return [columnOf(tf, given as ColumnLike, what)];
  }
  const byName = given as Readonly<Record<string, ColumnLike>>;
  const isWhole = Object.keys(byName).length === names.length && names.every((name) => Object.hasOwn(byName, name));
  if (!isWhole) {
    throw new TonyError(
      'DATA_INVALID',
      `${what} has ${Object.keys(byName).join(', ') || 'no entries'}; the model expects ${names.join(', ')}`,
    );
  }
  return names.map((name) => columnOf(tf, byName[name] as ColumnLike, `${what}.${name}`));
}

export function columnOf(tf: typeof tfjs, given: ColumnLike, what: string): tfjs.Tensor | Column {
  if (isColumn(tf, given)) {
    const { values, shape } = given as Column;
    const count = shape.reduce((product, size) => product * size, 1);
    // Tensors are not checked: their values always match their shape, and reading the values would block the backend.
    if (!(given instanceof tf.Tensor) && values.length !== count) {
      throw new TonyError('DATA_INVALID', `${what} has ${values.length} values; its shape [${shape}] requires ${count}`);
    }
    return given as tfjs.Tensor | Column;
  }
  if (ArrayBuffer.isView(given) && 'length' in given) {
    return { values: given instanceof Int32Array ? given : Float32Array.from(given as ArrayLike<number>), shape: [given.length] };
  }
  if (!Array.isArray(given)) {
    throw new TonyError(
      'DATA_INVALID',
      `${what} is ${describeValue(given)}, but must be a tensor, { values, shape } or an array of numbers`,
    );
  }
  return fromNested(given as NestedNumbers, what);
}

function fromNested(given: NestedNumbers, what: string): Column {
  const shape: number[] = [];
  for (let level: unknown = given; isList(level); level = level[0]) {
    shape.push(level.length);
  }
  const values = new Float32Array(shape.reduce((product, size) => product * size, 1));
  let at = 0;
  const fill = (level: unknown, depth: number): void => {
    if (depth === shape.length ? typeof level !== 'number' : !isList(level) || level.length !== shape[depth]) {
      const expected = depth === shape.length ? 'a number' : `an array of ${shape[depth]}`;
      throw new TonyError('DATA_INVALID', `${what} has ${describeValue(level)} where its first example has ${expected}`);
    }
    if (isList(level)) {
      for (const each of Array.from(level)) {
        fill(each, depth + 1);
      }
    } else {
      values[at++] = level as number;
    }
  };
  fill(given, 0);
  return { values, shape };
}

function isColumn(tf: typeof tfjs, value: unknown): boolean {
  if (value instanceof tf.Tensor) {
    return true;
  }
  return (
    typeof value === 'object' && value !== null && 'values' in value && isList(value.values) && 'shape' in value && isList(value.shape)
  );
}
