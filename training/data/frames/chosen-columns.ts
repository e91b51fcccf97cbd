import type { Column } from '../../../contract/encoding/idx.ts';
import { TonyError } from '../../../platform/errors.ts';
import { describeValue } from '../../../platform/text/describe-value.ts';
import type { TableRow } from '../formats/tables/table-values.ts';
import type { TableValue } from '../formats/tables/value-kinds.ts';
import { isColumn } from '../transforms/collate.ts';

/**
 * Columns that become inputs or targets of a model: one column, several columns of numbers side by side in one array, or an object with the
 * columns for each of the model's inputs or outputs.
 */
export type ChosenColumns = string | readonly string[] | Readonly<Record<string, string | readonly string[]>>;

/** The roles of columns in training. */
export interface TrainingColumns {
  readonly x: ChosenColumns;
  readonly y: ChosenColumns;
  readonly sampleWeight?: string | undefined;
}

export function checkChosenColumns(value: unknown): string | null {
  const isList = (each: unknown): boolean =>
    (typeof each === 'string' && each !== '') || (Array.isArray(each) && each.length > 0 && each.every((name) => typeof name === 'string'));
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  const isValid = isObject ? Object.keys(value).length > 0 && Object.values(value).every(isList) : isList(value);
  return isValid ? null : 'the name of a column, a list of names, or an object with them for each input of the model';
}

export function namesIn({ x, y, sampleWeight }: TrainingColumns): string[] {
  const names = [x, y].flatMap((chosen) => (typeof chosen === 'string' || Array.isArray(chosen) ? chosen : Object.values(chosen).flat()));
  return [...new Set([...names, ...(sampleWeight === undefined ? [] : [sampleWeight])])];
}

/** Returns a row as an element that `fit` accepts. */
export function trainingRow(row: TableRow, columns: TrainingColumns): Record<string, unknown> {
  return chosenFrom(columns, (names) => (typeof names === 'string' ? row[names] : rowSideBySide(row, names)));
}

/** Returns the batch that `collate` makes of the rows of `trainingRow`. */
export function trainingBatch(batch: Readonly<Record<string, unknown>>, columns: TrainingColumns): Record<string, unknown> {
  return chosenFrom(columns, (names) => (typeof names === 'string' ? batch[names] : batchSideBySide(batch, names)));
}

function chosenFrom(
  { x, y, sampleWeight }: TrainingColumns,
  take: (names: string | readonly string[]) => unknown,
): Record<string, unknown> {
  const all = (chosen: ChosenColumns) =>
    typeof chosen === 'string' || Array.isArray(chosen)
      ? take(chosen as string | readonly string[])
      : Object.fromEntries(Object.entries(chosen).map(([name, each]) => [name, take(each)]));
  return { xs: all(x), ys: all(y), ...(sampleWeight === undefined ? {} : { sampleWeight: take(sampleWeight) }) };
}

function rowSideBySide(row: TableRow, names: readonly string[]): Float32Array {
  const values = names.map((name) => row[name] as TableValue);
  const all = new Float32Array(values.reduce<number>((sum, value) => sum + (ArrayBuffer.isView(value) ? lengthOf(value) : 1), 0));
  let at = 0;
  for (const [index, value] of values.entries()) {
    if (typeof value === 'number' || typeof value === 'boolean') {
      all[at++] = Number(value);
    } else if (ArrayBuffer.isView(value) && !Buffer.isBuffer(value)) {
      all.set(value as Float32Array, at);
      at += lengthOf(value);
    } else {
      throw notNumbers(names[index] as string, value);
    }
  }
  return all;
}

function lengthOf(value: ArrayBufferView): number {
  return (value as Float32Array).length;
}

function batchSideBySide(batch: Readonly<Record<string, unknown>>, names: readonly string[]): Column {
  const columns = names.map((name) => {
    const column = batch[name];
    if (!isColumn(column)) {
      throw notNumbers(name, Array.isArray(column) ? column[0] : column);
    }
    return { ...column, width: column.shape[1] ?? 1 };
  });
  const rows = columns[0]?.shape[0] ?? 0;
  const width = columns.reduce((sum, column) => sum + column.width, 0);
  const values = new Float32Array(rows * width);
  let offset = 0;
  for (const column of columns) {
    for (let row = 0; row < rows; row++) {
      for (let item = 0; item < column.width; item++) {
        values[row * width + offset + item] = column.values[row * column.width + item] as number;
      }
    }
    offset += column.width;
  }
  return { values, shape: [rows, width] };
}

function notNumbers(name: string, value: unknown): TonyError {
  return new TonyError(
    'DATA_INVALID',
    `column ${name} contains ${describeValue(value)}, but only numbers can be combined with other columns`,
    {
      hint: 'Read the columns without x and y, and combine them in a map.',
    },
  );
}
