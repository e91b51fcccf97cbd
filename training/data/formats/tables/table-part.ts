import type { Column } from '../../../../contract/encoding/idx.ts';
import { type BatchField, collate } from '../../transforms/collate.ts';
import { undecodable } from '../damage.ts';
import { setField } from '../set-field.ts';
import type { ColumnValues, StoredNumbers } from './column-values.ts';
import type { Converter, TableRow } from './table-values.ts';
import { arrayOf, type FieldKind, type ScalarKind, scalarConverter, type TableValue, type ValueKind } from './value-kinds.ts';

/*
 * Rows of Parquet files and DataFrames become elements in two ways with the same result: as objects, which the methods of a dataset
 * transform, and directly as batches. A batch of numbers is copied from the stored columns without an object for each row. All that is
 * unusual, such as lists of different lengths, takes the way through the values of each row, so that both ways report the same errors.
 */

export interface TableColumn extends FieldKind {
  readonly convert: Converter;
}

/** Numbers of several rows: `width` numbers for each row, or a single number if `width` is null. */
interface Packed {
  readonly values: Column['values'];
  readonly width: number | null;
}

/** Rows that were read together, in the order in which they become elements. */
export class TablePart {
  readonly #columns: readonly TableColumn[];
  readonly #stored: readonly ColumnValues[];
  readonly #order: Uint32Array;
  readonly #whereOf: (row: number) => string;
  readonly #packed = new Map<number, Packed | null>();

  /**
   * @param order the stored rows to read, by index
   * @param whereOf returns the place of a stored row, for error messages
   */
  constructor(
    columns: readonly TableColumn[],
    stored: readonly ColumnValues[],
    { order, whereOf }: { order: Uint32Array; whereOf: (row: number) => string },
  ) {
    this.#columns = columns;
    this.#stored = stored;
    this.#order = order;
    this.#whereOf = whereOf;
  }

  get size(): number {
    return this.#order.length;
  }

  get columns(): readonly TableColumn[] {
    return this.#columns;
  }

  /** Returns the rows from `from` up to, but not including, `to` as objects. */
  rows(from: number, to: number): TableRow[] {
    return this.#convert(from, to, (index) => {
      const row: Record<string, TableValue> = {};
      for (let column = 0; column < this.#columns.length; column++) {
        const { name, convert } = this.#columns[column] as TableColumn;
        setField(row, name, convert((this.#stored[column] as ColumnValues).get(index)));
      }
      return row;
    });
  }

  /** Returns a column's values in the rows from `from` up to, but not including, `to`. */
  values(column: number, from: number, to: number): TableValue[] {
    const { convert } = this.#columns[column] as TableColumn;
    const stored = this.#stored[column] as ColumnValues;
    return this.#convert(from, to, (index) => convert(stored.get(index)));
  }

  #convert<T>(from: number, to: number, convert: (index: number) => T): T[] {
    const results: T[] = [];
    for (let place = from; place < to; place++) {
      const index = this.#order[place] as number;
      try {
        results.push(convert(index));
      } catch (error) {
        throw undecodable(error, this.#whereOf(index));
      }
    }
    return results;
  }

  /** Returns a column's numbers in the order in which they are stored, or null if they cannot be copied. */
  packed(column: number): Packed | null {
    let packed = this.#packed.get(column);
    if (packed === undefined) {
      packed = pack(this.#stored[column] as ColumnValues, (this.#columns[column] as TableColumn).kind);
      this.#packed.set(column, packed);
    }
    return packed;
  }

  /** Copies the numbers of the rows from `from` up to `to` to `target`, beginning with row `at`. */
  copy({ values, width }: Packed, from: number, to: number, target: Column['values'], at: number): void {
    const order = this.#order;
    if (width === null) {
      for (let place = from; place < to; place++) {
        target[at + place - from] = values[order[place] as number] as number;
      }
      return;
    }
    for (let place = from; place < to; place++) {
      const start = (order[place] as number) * width;
      const goal = (at + place - from) * width;
      // For short rows, a loop is faster than `set` with `subarray`.
      if (width < 16) {
        for (let item = 0; item < width; item++) {
          target[goal + item] = values[start + item] as number;
        }
      } else {
        target.set(values.subarray(start, start + width), goal);
      }
    }
  }
}

/** Rows of a part that belong to a batch: from `from` up to, but not including, `to`. */
export interface BatchRows {
  readonly part: TablePart;
  readonly from: number;
  readonly to: number;
}

/** One row of a part: an element that has not been made an object yet. */
export interface RowPlace {
  readonly part: TablePart;
  readonly row: number;
}

/** Returns the places of the rows from `from` up to, but not including, `to`. */
export function placesIn(part: TablePart, from: number, to: number): RowPlace[] {
  return Array.from({ length: to - from }, (_, index) => ({ part, row: from + index }));
}

/** Joins places that follow each other in one part. */
export function joinPlaces(places: readonly RowPlace[]): BatchRows[] {
  const joined: { part: TablePart; from: number; to: number }[] = [];
  for (const { part, row } of places) {
    const last = joined.at(-1);
    if (last?.part === part && last.to === row) {
      last.to++;
    } else {
      joined.push({ part, from: row, to: row + 1 });
    }
  }
  return joined;
}

/** Returns true if all rows have columns with the same names. Parts of different files may not. */
export function haveSameColumns(rows: readonly BatchRows[]): boolean {
  const columns = rows[0]?.part.columns ?? [];
  return rows.every(({ part }) => {
    const own = part.columns;
    return own === columns || (own.length === columns.length && own.every(({ name }, index) => name === columns[index]?.name));
  });
}

/**
 * Returns the same batch as `collate` with the rows as objects. The rows must have the same columns.
 * @param first number of the first row, for error messages.
 * @param pathOf returns the name of a column in error messages.
 */
export function batchOfRows(rows: readonly BatchRows[], first: number, pathOf = (name: string): string => name): Record<string, unknown> {
  const { columns } = (rows[0] as BatchRows).part;
  return Object.fromEntries(columns.map(({ name }, column) => [name, batchOfColumn(rows, column, { name: pathOf(name), first })]));
}

function batchOfColumn(rows: readonly BatchRows[], column: number, field: BatchField): unknown {
  const packed = rows.map(({ part }) => part.packed(column));
  const [example] = packed;
  if (example == null || !packed.every((each) => each !== null && areAlike(each, example))) {
    return collate<unknown>(
      rows.flatMap(({ part, from, to }) => part.values(column, from, to)),
      field.first,
      field.name,
    );
  }
  const size = rows.reduce((sum, { from, to }) => sum + to - from, 0);
  const Values = example.values.constructor as new (length: number) => Column['values'];
  const values = new Values(size * (example.width ?? 1));
  let at = 0;
  for (const [index, { part, from, to }] of rows.entries()) {
    part.copy(packed[index] as Packed, from, to, values, at);
    at += to - from;
  }
  return { values, shape: example.width === null ? [size] : [size, example.width] } satisfies Column;
}

function areAlike(packed: Packed, other: Packed): boolean {
  return packed.width === other.width && packed.values.constructor === other.values.constructor;
}

function pack(stored: ColumnValues, kind: ValueKind): Packed | null {
  if (stored.hasNulls) {
    return null;
  }
  if (typeof kind === 'object' && 'list' in kind) {
    return packList(stored, kind.list as ScalarKind);
  }
  if (kind === 'boolean') {
    return stored.numbers === null ? { values: Uint8Array.from(booleans(stored)), width: null } : null;
  }
  const values = stored.numbers === null ? null : convertAll(stored.numbers, kind as ScalarKind, Float32Array);
  return values && { values, width: null };
}

function* booleans(stored: ColumnValues): Generator<number> {
  for (let row = 0; row < stored.rows; row++) {
    yield stored.get(row) === true ? 1 : 0;
  }
}

/** Packs lists that all have the same length. */
function packList({ list, rows }: ColumnValues, kind: ScalarKind): Packed | null {
  const Values = arrayOf(kind) === Int32Array ? Int32Array : Float32Array;
  if (list === null || list.items.numbers === null || list.items.hasNulls || arrayOf(kind) === null || rows === 0) {
    return null;
  }
  const { offsets, items } = list;
  const [start = 0, second = 0] = [offsets[0], offsets[1]];
  const width = second - start;
  for (let row = 1; row < rows; row++) {
    if ((offsets[row + 1] as number) - (offsets[row] as number) !== width) {
      return null;
    }
  }
  const values = convertAll((items.numbers as StoredNumbers).subarray(start, start + rows * width) as StoredNumbers, kind, Values);
  return values && { values, width };
}

/** Converts stored numbers. Returns null if a number has no exact representation, because the error must name its column. */
function convertAll(
  stored: StoredNumbers,
  kind: ScalarKind,
  Values: typeof Int32Array | typeof Float32Array,
): Int32Array | Float32Array | null {
  const isPlain = kind === 'integer' || kind === 'float' || kind === 'double';
  const isBig = stored instanceof BigInt64Array || stored instanceof BigUint64Array;
  if (isPlain && stored instanceof Values) {
    return stored as Int32Array | Float32Array;
  }
  if (Values === Float32Array && isPlain && !isBig) {
    return new Float32Array(stored);
  }
  const values = new Values(stored.length);
  const convert = scalarConverter(kind) as (value: unknown) => number;
  const numberAt = isPlain && stored instanceof BigInt64Array ? integersOf(stored) : (index: number) => numberOrNaN(convert, stored[index]);
  const limit = Values === Int32Array ? 2 ** 31 - 1 : Number.MAX_SAFE_INTEGER;
  for (let index = 0; index < stored.length; index++) {
    const value = numberAt(index);
    if (!(value <= limit && value >= -limit - (Values === Int32Array ? 1 : 0))) {
      return null;
    }
    values[index] = value;
  }
  return values;
}

/** Returns a function that reads an integer as a number. It does not create a bigint, which would take most of the time. */
function integersOf({ buffer, byteOffset, length }: BigInt64Array): (index: number) => number {
  const halves = new Int32Array(buffer, byteOffset, 2 * length);
  return (index) => (halves[2 * index + 1] as number) * 2 ** 32 + ((halves[2 * index] as number) >>> 0);
}

function numberOrNaN(convert: (value: unknown) => number, stored: unknown): number {
  try {
    return convert(stored);
  } catch {
    return Number.NaN;
  }
}
