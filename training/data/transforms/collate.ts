import type { Column } from '../../../contract/encoding/idx.ts';
import { TonyError } from '../../../platform/errors.ts';
import { describeValue, isPlainObject } from '../../../platform/text/describe-value.ts';

type Numbers =
  | Uint8Array
  | Uint8ClampedArray
  | Int8Array
  | Uint16Array
  | Int16Array
  | Uint32Array
  | Int32Array
  | Float32Array
  | Float64Array;

/**
 * A batch's type. Numbers and arrays of numbers become a column with `shape[0]` examples. Strings and Buffers become a list. Objects are
 * batched field by field.
 */
export type Batched<T> = T extends Buffer | string
  ? T[]
  : T extends number | boolean | Numbers | Column | readonly number[] | readonly (readonly unknown[])[]
    ? Column
    : T extends object
      ? { [Name in keyof T]: Batched<T[Name]> }
      : unknown;

/** A field in all elements of a batch, or the elements themselves if the name is empty. */
export interface BatchField {
  readonly name: string;
  /** Number of the batch's first element among the elements that this reader has read. Null: the batch's position is unknown. */
  readonly first: number | null;
}

/**
 * Combines elements into a batch.
 * @param first see `BatchField`.
 * @param name name of the field if the elements are the values of a field.
 * @throws TonyError DATA_INVALID if a value cannot be batched, or if a field's values have different types or shapes.
 */
export function collate<T>(elements: readonly T[], first: number | null, name = ''): Batched<T> {
  return collateField(elements, { name, first }) as Batched<T>;
}

function collateField(values: readonly unknown[], field: BatchField): unknown {
  const kind = kindOf(values[0]);
  for (let index = 0; index < values.length; index++) {
    const own = kindOf(values[index]);
    if (own === 'nothing') {
      throw unusable(values[index], field, index);
    }
    if (own !== kind) {
      throw different(field, index, `is ${describeValue(values[index])}`, `it is ${describeValue(values[0])}`);
    }
  }
  switch (kind) {
    case 'text':
    case 'bytes':
      return [...values];
    case 'number':
      return { values: Float32Array.from(values as number[]), shape: [values.length] } satisfies Column;
    case 'boolean':
      return { values: Uint8Array.from(values as boolean[], Number), shape: [values.length] } satisfies Column;
    case 'array':
      return stack(values.map((value, index) => columnOfArray(value as readonly unknown[], field, index)) as Column[], field);
    case 'numbers':
      return stack((values as Numbers[]).map((numbers) => ({ values: numbers, shape: [numbers.length] })) as Flat[], field);
    case 'column':
      return stack(values as Flat[], field);
    case 'fields':
      return collateFields(values as Readonly<Record<string, unknown>>[], field);
    case 'tensor':
      throw misfit(
        field,
        0,
        'is already a tensor',
        'Return numbers or arrays (await tensor.array()), or { values, shape }, or pass a tf.data.Dataset with fromTfDataset().',
      );
  }
}

/** Returns the error for a value that is missing, or that has a type which no batch can contain. */
export function unusable(value: unknown, field: BatchField, index = 0): TonyError {
  return misfit(field, index, `is ${describeValue(value)}`, adviceFor(value));
}

function adviceFor(value: unknown): string {
  if (value === undefined) {
    return 'Give missing values a default, and check that each function that produces elements has a return statement.';
  }
  if (value === null) {
    return 'Give missing values a default.';
  }
  if (typeof value === 'bigint') {
    return 'Convert it to a number with Number().';
  }
  if (value instanceof BigInt64Array || value instanceof BigUint64Array) {
    return 'Convert it with Float32Array.from(values, Number).';
  }
  return value instanceof Promise ? 'Await it in an async map.' : 'Convert it to numbers, a string or a Buffer in a map.';
}

function collateFields(elements: readonly Readonly<Record<string, unknown>>[], field: BatchField): Record<string, unknown> {
  const names = Object.keys(elements[0] ?? {});
  const other = elements.findIndex((element) => Object.keys(element).length !== names.length);
  if (other !== -1) {
    throw different(field, other, `has the fields ${Object.keys(elements[other] ?? {})}`, `it has the fields ${names}`);
  }
  const result: Record<string, unknown> = {};
  for (const name of names) {
    result[name] = collateField(
      elements.map((element) => element[name]),
      subfield(field, name),
    );
  }
  return result;
}

export function subfield({ name, first }: BatchField, part: string): BatchField {
  return { name: name === '' ? part : `${name}.${part}`, first };
}

type Kind = 'number' | 'boolean' | 'text' | 'bytes' | 'numbers' | 'array' | 'column' | 'tensor' | 'fields' | 'nothing';

function kindOf(value: unknown): Kind {
  switch (typeof value) {
    case 'number':
      return 'number';
    case 'boolean':
      return 'boolean';
    case 'string':
      return 'text';
    case 'object':
      if (value === null) {
        return 'nothing';
      }
      // Buffers are never stacked, even if they have equal lengths, because a batch's type must not depend on lengths.
      if (Buffer.isBuffer(value)) {
        return 'bytes';
      }
      if (ArrayBuffer.isView(value)) {
        return value instanceof BigInt64Array || value instanceof BigUint64Array ? 'nothing' : 'numbers';
      }
      if (Array.isArray(value)) {
        return 'array';
      }
      if ('dispose' in value && 'dataSync' in value) {
        return 'tensor';
      }
      return isColumn(value) ? 'column' : isPlainObject(value) ? 'fields' : 'nothing';
    default:
      return 'nothing';
  }
}

export function isColumn(value: unknown): value is Column {
  if (typeof value !== 'object' || value === null || !('values' in value) || !('shape' in value)) {
    return false;
  }
  return ArrayBuffer.isView(value.values) && Array.isArray(value.shape);
}

/**
 * Converts an array of numbers, a typed array, or an array of rows with equal lengths to a column. Returns null for other values.
 * @param field the field that has this value in element `index`.
 */
export function columnOf(value: unknown, field: BatchField, index: number): Column | null {
  switch (kindOf(value)) {
    case 'column':
      return value as Column;
    case 'numbers':
      return { values: stack([{ values: value as Numbers, shape: [] }], field).values, shape: [(value as Numbers).length] };
    case 'array':
      return columnOfArray(value as readonly unknown[], field, index);
    default:
      return null;
  }
}

interface Flat {
  readonly values: Numbers;
  readonly shape: readonly number[];
}

function stack(columns: readonly Flat[], field: BatchField): Column {
  const [first] = columns as readonly [Flat, ...Flat[]];
  const width = first.values.length;
  const values = emptyLike(first.values, width * columns.length);
  let at = 0;
  for (const [index, { values: row, shape }] of columns.entries()) {
    if (row.length !== width || shape.length !== first.shape.length || shape.some((size, axis) => size !== first.shape[axis])) {
      const hint = 'Pad or truncate it to one length in a map, or call paddedBatch().';
      throw different(field, index, `has the shape [${shape}]`, `it has the shape [${first.shape}]`, hint);
    }
    values.set(row, at);
    at += width;
  }
  return { values, shape: [columns.length, ...first.shape] };
}

/**
 * Returns an array of zeros whose type can be converted to a float32 or int32 tensor. Keeps one-byte and two-byte types where possible, to
 * save memory.
 */
function emptyLike(values: Numbers, length: number): Column['values'] {
  if (values instanceof Uint8Array || values instanceof Uint8ClampedArray) {
    return new Uint8Array(length);
  }
  if (values instanceof Int8Array) {
    return new Int8Array(length);
  }
  if (values instanceof Int16Array) {
    return new Int16Array(length);
  }
  if (values instanceof Float32Array || values instanceof Float64Array) {
    return new Float32Array(length);
  }
  return new Int32Array(length);
}

function columnOfArray(array: readonly unknown[], field: BatchField, index: number): Column {
  const shape: number[] = [];
  for (let level: unknown = array; Array.isArray(level); level = level[0]) {
    shape.push(level.length);
  }
  const flat = array.flat(shape.length) as unknown[];
  if (flat.length !== shape.reduce((product, size) => product * size, 1) || flat.some((value) => typeof value !== 'number')) {
    throw misfit(field, index, 'is an array whose items are not numbers, or not rows of numbers with the same length');
  }
  return { values: Float32Array.from(flat as number[]), shape };
}

/** Returns the error for a value in element `index` of a batch. */
export function misfit(field: BatchField, index: number, what: string, hint?: string): TonyError {
  const { name, first } = field;
  const element = `element ${(first ?? 1) + index} of ${first === null ? 'the batch' : 'the dataset'}`;
  const counted = first === null ? '' : 'Elements are numbered from 1 in the order in which this reader has read them since it started.';
  const hints = [hint, counted].filter(Boolean).join(' ');
  return new TonyError('DATA_INVALID', `${name === '' ? '' : `field ${name} of `}${element} ${what}`, hints === '' ? {} : { hint: hints });
}

/** Returns the error for a value that does not match the one in the first element of the batch. */
export function different(
  field: BatchField,
  index: number,
  what: string,
  first: string,
  hint = 'All elements must have the same form.',
): TonyError {
  return misfit(field, index, `${what}; in element ${field.first ?? 1}, ${first}`, hint);
}
