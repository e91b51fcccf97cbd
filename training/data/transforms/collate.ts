import { TonyError } from '../../../platform/errors.ts';
import type { Column } from '../../encoding/idx.ts';

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

/**
 * Combines elements into a batch.
 * @throws TonyError DATA_INVALID if a field's values have different types or shapes.
 */
export function collate<T>(elements: readonly T[]): Batched<T> {
  return collateField(elements, '') as Batched<T>;
}

function collateField(values: readonly unknown[], field: string): unknown {
  const first = values[0];
  const kind = kindOf(first);
  const odd = values.find((value) => kindOf(value) !== kind);
  if (odd !== undefined) {
    throw misfit(field, `is ${kind} in one element and ${kindOf(odd)} in another`);
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
      return stack(values.map((value) => columnOfArray(value as readonly unknown[], field)) as Column[], field);
    case 'numbers':
      return stack((values as Numbers[]).map((numbers) => ({ values: numbers, shape: [numbers.length] })) as Flat[], field);
    case 'column':
      return stack(values as Flat[], field);
    case 'fields':
      return collateFields(values as Readonly<Record<string, unknown>>[], field);
    case 'tensor':
      throw misfit(field, 'is already a tensor', 'Call batch() before converting to tensors, or return { values, shape }.');
    case 'nothing':
      throw misfit(field, `cannot be batched: ${String(first)}`, 'Give missing values a default.');
  }
}

function collateFields(elements: readonly Readonly<Record<string, unknown>>[], field: string): Record<string, unknown> {
  const names = Object.keys(elements[0] ?? {});
  const result: Record<string, unknown> = {};
  for (const name of names) {
    const path = field === '' ? name : `${field}.${name}`;
    result[name] = collateField(
      elements.map((element) => element[name]),
      path,
    );
  }
  const other = elements.find((element) => Object.keys(element).length !== names.length);
  if (other !== undefined) {
    throw misfit(field, `has the fields ${names} in one element and ${Object.keys(other)} in another`);
  }
  return result;
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
      return isColumn(value) ? 'column' : 'fields';
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

/** Converts an array of numbers, a typed array, or an array of rows with equal lengths to a column. Returns null for other values. */
export function columnOf(value: unknown): Column | null {
  switch (kindOf(value)) {
    case 'column':
      return value as Column;
    case 'numbers':
      return { values: stack([{ values: value as Numbers, shape: [] }], '').values, shape: [(value as Numbers).length] };
    case 'array':
      return columnOfArray(value as readonly unknown[], '');
    default:
      return null;
  }
}

interface Flat {
  readonly values: Numbers;
  readonly shape: readonly number[];
}

function stack(columns: readonly Flat[], field: string): Column {
  const [first] = columns as readonly [Flat, ...Flat[]];
  const width = first.values.length;
  const values = emptyLike(first.values, width * columns.length);
  let at = 0;
  for (const { values: row, shape } of columns) {
    if (row.length !== width || shape.length !== first.shape.length || shape.some((size, axis) => size !== first.shape[axis])) {
      throw misfit(
        field,
        `has the shape [${first.shape}] in one element and [${shape}] in another`,
        'Pad or truncate it to one length in a map, or call paddedBatch().',
      );
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

function columnOfArray(array: readonly unknown[], field: string): Column {
  const shape: number[] = [];
  for (let level: unknown = array; Array.isArray(level); level = level[0]) {
    shape.push(level.length);
  }
  const flat = array.flat(shape.length) as unknown[];
  if (flat.length !== shape.reduce((product, size) => product * size, 1) || flat.some((value) => typeof value !== 'number')) {
    throw misfit(field, 'is an array whose elements are not rows of numbers with the same length');
  }
  return { values: Float32Array.from(flat as number[]), shape };
}

export function misfit(field: string, what: string, hint?: string): TonyError {
  const where = field === '' ? 'an element of the dataset' : `field ${field} of the dataset`;
  return new TonyError('DATA_INVALID', `${where} ${what}`, hint === undefined ? {} : { hint });
}
