import { type ColumnValues, numberValues } from './column-values.ts';

export type CsvValue = number | boolean | string | undefined;
export type CsvDType = 'float32' | 'int32' | 'bool' | 'string';

const LEAST_ROWS = 256;

/** Collects the values of a column, as an array of numbers as long as all of them are numbers. */
export class CsvColumn {
  readonly name: string;
  readonly dtype: CsvDType | undefined;
  /** Converts the text of a value. Throws an Error if the column cannot contain it. */
  readonly convert: (text: string) => CsvValue;
  #numbers = new Float64Array(LEAST_ROWS);
  #values: CsvValue[] | null = null;

  constructor(name: string, dtype: CsvDType | undefined, convert: (text: string) => CsvValue) {
    this.name = name;
    this.dtype = dtype;
    this.convert = convert;
  }

  /** Sets the value of a row. The rows before it must have values. */
  set(row: number, value: CsvValue): void {
    if (this.#values === null && typeof value === 'number') {
      if (row === this.#numbers.length) {
        const longer = new Float64Array(2 * row);
        longer.set(this.#numbers);
        this.#numbers = longer;
      }
      this.#numbers[row] = value;
    } else {
      this.#values ??= Array.from(this.#numbers.subarray(0, row));
      this.#values[row] = value;
    }
  }

  /** Returns the values of the first rows, and begins anew. */
  take(rows: number): ColumnValues {
    const [numbers, values] = [this.#numbers.subarray(0, rows), this.#values];
    this.#numbers = new Float64Array(this.#numbers.length);
    this.#values = null;
    return values === null ? numberValues(numbers, null) : { numbers: null, list: null, rows, hasNulls: false, get: (row) => values[row] };
  }
}
