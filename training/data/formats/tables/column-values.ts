/** A number array in which files store values. */
export type StoredNumbers =
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | Float32Array
  | Float64Array
  | BigInt64Array
  | BigUint64Array;

/** The stored values of one column in several rows. */
export interface ColumnValues {
  /** The stored numbers of all rows, or null for values that are not stored as numbers. */
  readonly numbers: StoredNumbers | null;
  /** For lists: row `row` has the items from `offsets[row]` up to, but not including, `offsets[row + 1]`. */
  readonly list: { readonly offsets: ArrayLike<number>; readonly items: ColumnValues } | null;
  readonly rows: number;
  /** False if no value is missing. */
  readonly hasNulls: boolean;
  /** Returns the stored value of a row, as value-kinds.ts describes it, or null if it is missing. */
  get(row: number): unknown;
}

/** @param isValid returns whether a row has a value. Null: all rows have one. */
export function numberValues(numbers: StoredNumbers, isValid: ((row: number) => boolean) | null): ColumnValues {
  const get = isValid === null ? (row: number) => numbers[row] : (row: number) => (isValid(row) ? numbers[row] : null);
  return { numbers, list: null, rows: numbers.length, hasNulls: isValid !== null, get };
}

/** @param isValid returns whether a row has a list. Null: all rows have one. */
export function listValues(
  offsets: ArrayLike<number>,
  rows: number,
  items: ColumnValues,
  isValid: ((row: number) => boolean) | null,
): ColumnValues {
  const { numbers } = items;
  const get = (row: number) => {
    const [from, to] = [offsets[row] as number, offsets[row + 1] as number];
    if (isValid?.(row) === false) {
      return null;
    }
    return numbers !== null && !items.hasNulls
      ? numbers.subarray(from, to)
      : Array.from({ length: to - from }, (_, item) => items.get(from + item));
  };
  return { numbers: null, list: { offsets, items }, rows, hasNulls: isValid !== null, get };
}
