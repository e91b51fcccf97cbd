import type { Column } from '../../../contract/encoding/idx.ts';
import { decoding } from '../formats/damage.ts';
import type { Converter, TableRow } from '../formats/tables/table-values.ts';
import {
  arrayOf,
  type FieldKind,
  type ScalarKind,
  scalarConverter,
  type TableValue,
  type ValueKind,
} from '../formats/tables/value-kinds.ts';
import { type BatchField, collate } from '../transforms/collate.ts';
import type { ArrowColumn, StoredNumbers } from './arrow-stream.ts';

/*
 * Rows of a DataFrame become elements in two ways with the same result: as objects, which the methods of a dataset transform, and directly
 * as batches. A batch of numbers is copied from Arrow's memory without an object for each row. All that is unusual, such as lists of
 * different lengths, takes the way through the values of each row, so that both ways report the same errors.
 */

export interface FrameColumn extends FieldKind {
  readonly convert: Converter;
}

/** Numbers of several rows: `width` numbers for each row, or a single number if `width` is null. */
interface Packed {
  readonly values: Column['values'];
  readonly width: number | null;
}

/** Rows of one record batch, in the order in which they are read. */
export class FramePart {
  readonly #columns: readonly FrameColumn[];
  readonly #stored: readonly ArrowColumn[];
  readonly #order: Uint32Array;
  readonly #where: string;
  readonly #packed = new Map<number, Packed | null>();
  /** Number of records of the epoch before this part. */
  readonly position: number;
  /** Size of one row in bytes. */
  readonly rowBytes: number;

  /**
   * @param order the rows of the record batch to read, by index
   * @param where the feed and the partition, for error messages
   */
  constructor(
    columns: readonly FrameColumn[],
    stored: readonly ArrowColumn[],
    { order, position, rowBytes, where }: { order: Uint32Array; position: number; rowBytes: number; where: string },
  ) {
    this.#columns = columns;
    this.#stored = stored;
    this.#order = order;
    this.#where = where;
    this.position = position;
    this.rowBytes = rowBytes;
  }

  get size(): number {
    return this.#order.length;
  }

  /** Returns the rows from `from` up to, but not including, `to` as objects. */
  rows(from: number, to: number): TableRow[] {
    return decoding(this.#where, () => {
      const rows: Record<string, TableValue>[] = [];
      for (let place = from; place < to; place++) {
        const index = this.#order[place] as number;
        const row: Record<string, TableValue> = {};
        for (let column = 0; column < this.#columns.length; column++) {
          const { name, convert } = this.#columns[column] as FrameColumn;
          row[name] = convert((this.#stored[column] as ArrowColumn).get(index));
        }
        rows.push(row);
      }
      return rows;
    });
  }

  /** Returns a column's values in the rows from `from` up to, but not including, `to`. */
  values(column: number, from: number, to: number): TableValue[] {
    const { convert } = this.#columns[column] as FrameColumn;
    const stored = this.#stored[column] as ArrowColumn;
    return decoding(this.#where, () => Array.from(this.#order.subarray(from, to), (index) => convert(stored.get(index))));
  }

  /** Returns a column's numbers in the order in which they are stored, or null if they cannot be copied. */
  packed(column: number): Packed | null {
    let packed = this.#packed.get(column);
    if (packed === undefined) {
      packed = pack(this.#stored[column] as ArrowColumn, (this.#columns[column] as FrameColumn).kind);
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
  readonly part: FramePart;
  readonly from: number;
  readonly to: number;
}

/** Returns the same batch as `collate` with the rows as objects. */
export function batchOfRows(columns: readonly FrameColumn[], rows: readonly BatchRows[], first: number): Record<string, unknown> {
  return Object.fromEntries(columns.map(({ name }, column) => [name, batchOfColumn(rows, column, { name, first })]));
}

function batchOfColumn(rows: readonly BatchRows[], column: number, field: BatchField): unknown {
  const packed = rows.map(({ part }) => part.packed(column));
  const [example] = packed;
  if (example == null || !packed.every((each) => each !== null && each.width === example.width)) {
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

function pack(stored: ArrowColumn, kind: ValueKind): Packed | null {
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

function* booleans(stored: ArrowColumn): Generator<number> {
  for (let row = 0; row < stored.rows; row++) {
    yield stored.get(row) === true ? 1 : 0;
  }
}

/** Packs lists that all have the same length. */
function packList({ list, rows }: ArrowColumn, kind: ScalarKind): Packed | null {
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
  if (stored instanceof Values) {
    return stored as Int32Array | Float32Array;
  }
  const isBig = stored instanceof BigInt64Array || stored instanceof BigUint64Array;
  const isPlain = kind === 'integer' || kind === 'float' || kind === 'double';
  if (Values === Float32Array && isPlain && !isBig) {
    return new Float32Array(stored);
  }
  const values = new Values(stored.length);
  const convert = scalarConverter(kind) as (value: unknown) => number;
  const limit = Values === Int32Array ? 2 ** 31 - 1 : Number.MAX_SAFE_INTEGER;
  for (let index = 0; index < stored.length; index++) {
    const value = isBig && isPlain ? Number(stored[index]) : numberOrNaN(convert, stored[index]);
    if (!(value <= limit && value >= -limit - (Values === Int32Array ? 1 : 0))) {
      return null;
    }
    values[index] = value;
  }
  return values;
}

function numberOrNaN(convert: (value: unknown) => number, stored: unknown): number {
  try {
    return convert(stored);
  } catch {
    return Number.NaN;
  }
}
