import { encodeTfRecord } from '../../contract/encoding/tfrecord.ts';
import { TonyError } from '../../platform/errors.ts';
import { encodeExample, type Features } from '../data/formats/example.ts';

export type PredictFormat = 'jsonl' | 'csv' | 'tfrecord';

/** Encodes one part's results as bytes. */
export interface PartEncoder {
  /** @throws TonyError DATA_INVALID if the format cannot represent the result. */
  encode(result: unknown): Buffer;
}

export const EXTENSIONS: Readonly<Record<PredictFormat, string>> = { jsonl: '.jsonl', csv: '.csv', tfrecord: '.tfrecord' };

/**
 * Creates the encoder for a part.
 * @param columns the CSV columns. Default: the fields of the first result.
 */
export function partEncoder(format: PredictFormat, columns: readonly string[] | null): PartEncoder {
  switch (format) {
    case 'jsonl':
      return { encode: (result) => Buffer.from(`${jsonOf(result)}\n`) };
    case 'tfrecord':
      return { encode: (result) => encodeTfRecord(recordOf(result)) };
    case 'csv':
      return new CsvEncoder(columns);
  }
}

function jsonOf(result: unknown): string {
  const text = JSON.stringify(result, plain);
  if (text === undefined) {
    throw misfit('a line of JSON', result);
  }
  return text;
}

/**
 * Converts values for JSON.stringify: typed arrays and Buffers become arrays, and NaN and infinite numbers become strings (`NaN`,
 * `Infinity`, `-Infinity`). `this` is the object that contains the value; JSON.stringify has already called the value's `toJSON`.
 */
function plain(this: Readonly<Record<string, unknown>>, name: string, converted: unknown): unknown {
  const value = Buffer.isBuffer(this[name]) ? this[name] : converted;
  if (typeof value === 'number' && !Number.isFinite(value)) {
    return String(value);
  }
  if (typeof value === 'bigint') {
    return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  }
  if (ArrayBuffer.isView(value) && !(value instanceof DataView)) {
    return Array.from(value as unknown as ArrayLike<unknown>);
  }
  return value;
}

function recordOf(result: unknown): Uint8Array {
  if (result instanceof Uint8Array) {
    return result;
  }
  if (typeof result === 'object' && result !== null && !Array.isArray(result)) {
    return encodeExample(result as Features);
  }
  throw misfit('a TFRecord', result, 'Return bytes, or the features of a tf.train.Example.');
}

class CsvEncoder implements PartEncoder {
  #columns: readonly string[] | null;
  #hasHeader = false;

  constructor(columns: readonly string[] | null) {
    this.#columns = columns;
  }

  encode(result: unknown): Buffer {
    if (typeof result !== 'object' || result === null || Array.isArray(result)) {
      throw misfit('a row of CSV', result, 'Return objects, whose fields are the columns.');
    }
    const row = result as Readonly<Record<string, unknown>>;
    this.#columns ??= Object.keys(row);
    const columns = this.#columns;
    const unknown = Object.keys(row).find((name) => !columns.includes(name));
    if (unknown !== undefined) {
      throw new TonyError('DATA_INVALID', `a result has the field ${unknown}, but the columns are ${columns.join(', ')}`);
    }
    const header = this.#hasHeader ? '' : csvLine(columns);
    this.#hasHeader = true;
    return Buffer.from(header + csvLine(columns.map((name) => row[name])));
  }
}

export function csvLine(values: readonly unknown[]): string {
  const line = values.map(fieldOf).join(',');
  // CSV readers ignore empty lines, so a row that consists of one empty value is quoted.
  return line === '' ? '""\n' : `${line}\n`;
}

function fieldOf(value: unknown): string {
  if (value === null || value === undefined) {
    return '';
  }
  const text = typeof value === 'object' ? jsonOf(value) : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function misfit(what: string, result: unknown, hint?: string): TonyError {
  const kind = result === null ? 'null' : Array.isArray(result) ? 'an array' : typeof result;
  return new TonyError('DATA_INVALID', `a result is ${kind}, which cannot be written as ${what}`, hint === undefined ? {} : { hint });
}
