import { TonyError } from '../../../platform/errors.ts';
import type { DataFile } from '../reading/file-set.ts';
import type { ReadContext } from '../reading/read-context.ts';
import type { FileFormat } from '../reading/split.ts';
import { compressionOf, readContents } from './file-bytes.ts';
import { type LineParser, type LineRecordOptions, lineFormat } from './line-format.ts';
import { LineSplitter } from './line-splitter.ts';
import { MAX_RECORD_BYTES, type RecordOptions } from './tfrecord-format.ts';

export type CsvValue = number | boolean | string | undefined;
export type CsvRow = Record<string, CsvValue>;
/** A row with separate features (`xs`) and labels (`ys`). Rows have this form if `columnConfigs` marks a column as a label. */
export interface LabelledCsvRow {
  readonly xs: CsvRow;
  readonly ys: CsvRow;
}

/** A column's configuration, with the same fields as in tf.data.csv. */
export interface ColumnConfig {
  /** Whether a missing value is an error. Default: false. */
  readonly required?: boolean;
  /** Type of the values. By default, values that look like numbers become numbers, and all other values become strings. */
  readonly dtype?: 'float32' | 'int32' | 'bool' | 'string';
  /** Value that replaces missing values. Default: undefined. */
  readonly default?: number | boolean | string;
  readonly isLabel?: boolean;
}

export interface CsvOptions extends RecordOptions {
  /** Whether the first line of each file contains the column names. Default: true. */
  readonly hasHeader?: boolean;
  /** The column names, in file order. They replace the names in the header. */
  readonly columnNames?: readonly string[];
  readonly columnConfigs?: Readonly<Record<string, ColumnConfig>>;
  /** Whether to omit all columns that are not in `columnConfigs`. Default: false. */
  readonly configuredColumnsOnly?: boolean;
  /** Character that separates the values. Default: a comma. */
  readonly delimiter?: string;
  /** Strings that mean a missing value, for example `['NA']`. An empty string always means a missing value. */
  readonly missingValues?: readonly string[];
  /** Whether large files can be split. Set to true only if no value contains a line break. Default: false. */
  readonly isSplittable?: boolean;
}

/** Creates the format for comma-separated values (RFC 4180). Quoted values may contain delimiters, line breaks and doubled quotes. */
export function csvFormat(options: CsvOptions): FileFormat<CsvRow | LabelledCsvRow> {
  const { delimiter = ',', hasHeader = true } = options;
  if (delimiter.length !== 1 || delimiter === '"') {
    throw new TonyError('DATA_INVALID', `the delimiter is ${JSON.stringify(delimiter)}, but must be a single character other than a quote`);
  }
  const isSplittable = options.isSplittable ?? false;
  const lines: LineRecordOptions = { ...options, isSplittable, isQuoted: !isSplittable };
  return lineFormat(lines, async (file, context) => {
    const names = options.columnNames ?? (hasHeader ? await readHeader(file, delimiter, lines, context) : null);
    if (names === null) {
      throw new TonyError('DATA_INVALID', 'CSV files without a header require columnNames');
    }
    return rowParser(names, options, delimiter, hasHeader);
  });
}

function rowParser(
  names: readonly string[],
  options: CsvOptions,
  delimiter: string,
  hasHeader: boolean,
): LineParser<CsvRow | LabelledCsvRow> {
  const { columnConfigs = {}, configuredColumnsOnly = false, missingValues = [] } = options;
  const missing = new Set(['', ...missingValues]);
  const unknown = Object.keys(columnConfigs).find((name) => !names.includes(name));
  if (unknown !== undefined) {
    throw new TonyError('DATA_INVALID', `the file has no column ${unknown} (columns: ${names.join(', ')})`);
  }
  const hasLabels = Object.values(columnConfigs).some(({ isLabel }) => isLabel);
  const columns = names
    .map((name, index) => ({ name, index, config: columnConfigs[name] ?? {} }))
    .filter(({ name }) => !configuredColumnsOnly || name in columnConfigs);
  return (line, offset) => {
    if ((hasHeader && offset === 0) || line === '') {
      return undefined;
    }
    const values = splitFields(line, delimiter);
    if (values.length !== names.length) {
      throw new Error(`the line must have ${names.length} values, but has ${values.length}`);
    }
    const xs: CsvRow = {};
    const ys: CsvRow = {};
    for (const { name, index, config } of columns) {
      const text = values[index] as string;
      const value = missing.has(text) ? missingValue(name, config) : convert(name, text, config.dtype);
      if (config.isLabel) {
        ys[name] = value;
      } else {
        xs[name] = value;
      }
    }
    return hasLabels ? { xs, ys } : xs;
  };
}

async function readHeader(file: DataFile, delimiter: string, options: LineRecordOptions, context: ReadContext): Promise<readonly string[]> {
  const compression = compressionOf(file, options.compression ?? 'auto');
  const maxRecordBytes = options.maxRecordBytes ?? MAX_RECORD_BYTES;
  const splitter = new LineSplitter({ where: file.uri, offset: 0, maxRecordBytes, isQuoted: options.isQuoted ?? false });
  for await (const bytes of readContents(file, compression, 0, context)) {
    const [first] = splitter.push(bytes);
    if (first !== undefined) {
      return namesOf(first.bytes, delimiter);
    }
  }
  const [only] = splitter.finish();
  return only === undefined ? [] : namesOf(only.bytes, delimiter);
}

function namesOf(header: Buffer, delimiter: string): readonly string[] {
  return splitFields(header.toString('utf8').replace(/^\ufeff/, ''), delimiter).map((name) => name.trim());
}

/** @throws Error if a quote is in the wrong place. */
export function splitFields(line: string, delimiter: string): string[] {
  if (!line.includes('"')) {
    return line.split(delimiter);
  }
  const fields: string[] = [];
  let at = 0;
  for (;;) {
    if (line[at] === '"') {
      let value = '';
      for (;;) {
        const quote = line.indexOf('"', at + 1);
        if (quote === -1) {
          throw new Error('a quote is not closed');
        }
        value += line.slice(at + 1, quote);
        at = quote + 1;
        if (line[at] !== '"') {
          break;
        }
        value += '"';
      }
      if (at < line.length && line[at] !== delimiter) {
        throw new Error(`text follows the closing quote of value ${fields.length + 1}`);
      }
      fields.push(value);
    } else {
      const end = line.indexOf(delimiter, at);
      const value = line.slice(at, end === -1 ? line.length : end);
      if (value.includes('"')) {
        throw new Error(`value ${fields.length + 1} contains a quote but does not begin with one`);
      }
      fields.push(value);
      at = end === -1 ? line.length : end;
    }
    if (at >= line.length) {
      return fields;
    }
    at++;
  }
}

function missingValue(name: string, config: ColumnConfig): CsvValue {
  if (config.default !== undefined) {
    return config.default;
  }
  if (config.required) {
    throw new Error(`column ${name} has no value`);
  }
  return undefined;
}

const TRUE = new Set(['1', 'true', 'True', 'TRUE']);
const FALSE = new Set(['0', 'false', 'False', 'FALSE']);

function convert(name: string, text: string, dtype: ColumnConfig['dtype']): CsvValue {
  if (dtype === 'string') {
    return text;
  }
  if (dtype === 'bool') {
    if (TRUE.has(text)) {
      return true;
    }
    if (FALSE.has(text)) {
      return false;
    }
    throw new Error(`column ${name} has ${JSON.stringify(text)}, which is neither true nor false`);
  }
  const number = Number(text);
  const isNumber = text.trim() !== '' && (!Number.isNaN(number) || /^\s*nan\s*$/i.test(text));
  if (dtype === undefined) {
    return isNumber ? number : text;
  }
  if (!isNumber) {
    throw new Error(`column ${name} has ${JSON.stringify(text)}, which is not a number`);
  }
  if (dtype === 'int32' && (number | 0) !== number) {
    throw new Error(`column ${name} has ${text}, which is not a 32-bit integer`);
  }
  return number;
}
