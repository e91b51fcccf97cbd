import type { Column } from '../../../contract/encoding/idx.ts';
import { type BatchField, columnOf, different, misfit, subfield } from './collate.ts';

export interface PaddedBatchOptions {
  /** The padding value. Default: 0. */
  readonly value?: number;
  /** The side on which padding is added. Recurrent networks usually need `start`. Default: `end`. */
  readonly side?: 'end' | 'start';
  /** Length of each axis, by field name. Null means the maximum length in the batch. Default: null for all axes. */
  readonly shapes?: Readonly<Record<string, readonly (number | null)[]>>;
  readonly dropRemainder?: boolean;
}

/**
 * Pads the arrays in each field to the same shape. Elements are numbers, arrays, or objects that contain arrays. All other values remain
 * unchanged.
 * @param first number of the first element, for error messages.
 * @throws TonyError DATA_INVALID if a field has arrays with different numbers of axes, or an array that exceeds its shape in `shapes`.
 */
export function pad<T>(elements: readonly T[], options: PaddedBatchOptions, first: number): readonly T[] {
  return padField(elements, { name: '', first }, options) as readonly T[];
}

function padField(values: readonly unknown[], field: BatchField, options: PaddedBatchOptions): readonly unknown[] {
  const columns = values.map((value, index) => columnOf(value, field, index));
  if (columns.every((column) => column !== null)) {
    return padColumns(columns, field, options);
  }
  if (!values.every(isFields)) {
    return values;
  }
  const results: Record<string, unknown>[] = values.map((value) => ({ ...value }));
  for (const name of Object.keys(results[0] ?? {})) {
    const padded = padField(
      results.map((result) => result[name]),
      subfield(field, name),
      options,
    );
    for (const [index, result] of results.entries()) {
      result[name] = padded[index];
    }
  }
  return results;
}

function isFields(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !ArrayBuffer.isView(value) && !('dataSync' in value);
}

function padColumns(
  columns: readonly Column[],
  field: BatchField,
  { value = 0, side = 'end', shapes }: PaddedBatchOptions,
): readonly Column[] {
  const axes = columns[0]?.shape.length ?? 0;
  const odd = columns.findIndex(({ shape }) => shape.length !== axes);
  if (odd !== -1) {
    throw different(field, odd, `has ${columns[odd]?.shape.length} axes`, `it has ${axes}`);
  }
  const wanted = shapes?.[field.name];
  if (wanted !== undefined && wanted.length !== axes) {
    throw misfit(field, 0, `has ${axes} axes, but the shape [${wanted}] given for it has ${wanted.length}`);
  }
  const shape = Array.from(
    { length: axes },
    (_, axis) => wanted?.[axis] ?? Math.max(...columns.map((column) => column.shape[axis] as number)),
  );
  return columns.map((column, index) => {
    const tooLong = column.shape.find((size, axis) => size > (shape[axis] as number));
    if (tooLong !== undefined) {
      throw misfit(field, index, `has the shape [${column.shape}], which does not fit into [${shape}]`);
    }
    return column.shape.every((size, axis) => size === shape[axis]) ? column : padded(column, shape, value, side);
  });
}

function padded(column: Column, shape: readonly number[], value: number, side: 'end' | 'start'): Column {
  const size = shape.reduce((product, length) => product * length, 1);
  const values = new (column.values.constructor as new (length: number) => Column['values'])(size).fill(value);
  const row = column.shape.at(-1) ?? 1;
  const rows = row === 0 ? 0 : column.values.length / row;
  for (let index = 0; index < rows; index++) {
    let at = 0;
    let rest = index;
    let stride = shape.at(-1) ?? 1;
    if (side === 'start') {
      at += stride - row;
    }
    for (let axis = shape.length - 2; axis >= 0; axis--) {
      const length = column.shape[axis] as number;
      const shift = side === 'start' ? (shape[axis] as number) - length : 0;
      at += ((rest % length) + shift) * stride;
      rest = Math.floor(rest / length);
      stride *= shape[axis] as number;
    }
    values.set(column.values.subarray(index * row, (index + 1) * row), at);
  }
  return { values, shape };
}
