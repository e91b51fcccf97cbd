import { TonyError } from '../../../../platform/errors.ts';
import type { DataFile } from '../../reading/file-set.ts';
import type { ReadContext } from '../../reading/read-context.ts';
import type { FileFormat } from '../../reading/split.ts';
import { decoding, skipUnreadable } from '../damage.ts';
import {
  firstLine,
  type Line,
  type LineParser,
  type LineRecordOptions,
  lineFormat,
  type TextOptions,
  textDecoder,
} from '../line-format.ts';
import { CsvColumn, type CsvDType, type CsvValue } from './csv-column.ts';
import { PlainNumbers } from './plain-number.ts';
import { placesIn, type RowPlace, type TableColumn, TablePart } from './table-part.ts';
import type { TableValue } from './value-kinds.ts';

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
  readonly dtype?: CsvDType;
  /** Value that replaces missing values. Default: undefined. */
  readonly default?: number | boolean | string;
  readonly isLabel?: boolean;
}

export type ColumnConfigs = Readonly<Record<string, ColumnConfig>>;

/** Whether a column is a label, as far as the types tell: `maybe` for a configuration that is only known when the program runs. */
type LabelOf<Config> = 'isLabel' extends keyof Config
  ? Config['isLabel' & keyof Config] extends true
    ? 'yes'
    : Config['isLabel' & keyof Config] extends false | undefined
      ? 'no'
      : 'maybe'
  : 'no';

/** The rows of a file whose columns have these configurations. */
export type CsvRowOf<Configs> = 'yes' extends { [Name in keyof Configs]: LabelOf<Configs[Name]> }[keyof Configs]
  ? LabelledCsvRow
  : 'maybe' extends { [Name in keyof Configs]: LabelOf<Configs[Name]> }[keyof Configs]
    ? CsvRow | LabelledCsvRow
    : CsvRow;

export interface CsvOptions<Configs extends ColumnConfigs = ColumnConfigs> extends TextOptions {
  /** Whether the first line of each file contains the column names. Default: true. */
  readonly hasHeader?: boolean;
  /** The column names, in file order. They replace the names in the header. */
  readonly columnNames?: readonly string[];
  readonly columnConfigs?: Configs;
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
export function csvFormat(options: CsvOptions): FileFormat<RowPlace> {
  const { delimiter = ',', hasHeader = true } = options;
  if (delimiter.length !== 1 || delimiter === '"') {
    throw new TonyError('USAGE', `the delimiter is ${JSON.stringify(delimiter)}, but must be a single character other than a quote`);
  }
  if (options.columnNames === undefined && !hasHeader) {
    throw new TonyError('USAGE', 'CSV files without a header require columnNames');
  }
  if (options.configuredColumnsOnly === true && Object.keys(options.columnConfigs ?? {}).length === 0) {
    throw new TonyError('USAGE', 'configuredColumnsOnly of csv is true, but columnConfigs names no column, so every row would be empty');
  }
  const isSplittable = options.isSplittable ?? false;
  const lines: LineRecordOptions = { ...options, isSplittable, ...(isSplittable ? {} : { quotedDelimiter: delimiter }) };
  return lineFormat(lines, async (file, context, onDamage) => {
    const names = options.columnNames ?? (await readHeader(file, delimiter, lines, context, onDamage));
    return names === null ? null : new CsvParser(names, options, file.uri);
  });
}

/** The names of the columns that contain labels. */
export function labelsOf({ columnConfigs = {} }: CsvOptions): ReadonlySet<string> {
  return new Set(Object.keys(columnConfigs).filter((name) => columnConfigs[name]?.isLabel));
}

const [QUOTE, RETURN] = [0x22, 0x0d] as const;

class CsvParser implements LineParser<RowPlace> {
  readonly #uri: string;
  readonly #delimiter: string;
  readonly #delimiterByte: number;
  readonly #decode: (bytes: Buffer) => string;
  readonly #hasHeader: boolean;
  /** The columns in file order. Null stands for a column that is not read. */
  readonly #columns: readonly (CsvColumn | null)[];
  readonly #table: readonly TableColumn[];
  readonly #numbers = new PlainNumbers();
  /** Whether numbers can be read without looking at their text. */
  readonly #isPlain: boolean;
  #rows = 0;

  /** @throws TonyError DATA_INVALID if a column is missing or exists twice. */
  constructor(names: readonly string[], options: CsvOptions, uri: string) {
    const { columnConfigs = {}, configuredColumnsOnly = false, missingValues = [], delimiter = ',', hasHeader = true } = options;
    const unknown = Object.keys(columnConfigs).find((name) => !names.includes(name));
    if (unknown !== undefined) {
      throw new TonyError('DATA_INVALID', `${uri}: the file has no column ${unknown} (columns: ${names.join(', ')})`);
    }
    const chosen = names.filter((name) => !configuredColumnsOnly || Object.hasOwn(columnConfigs, name));
    requireDistinct(chosen, uri);
    const missing = new Set(['', ...missingValues]);
    const columns = new Map(
      chosen.map((name) => [name, columnOf(name, (Object.hasOwn(columnConfigs, name) ? columnConfigs[name] : undefined) ?? {}, missing)]),
    );
    this.#columns = names.map((name) => columns.get(name) ?? null);
    // The values are converted already. Numbers have the kind `double`, which a batch collects as float32.
    this.#table = chosen.map((name) => ({ name, kind: 'double', convert: (value) => value as TableValue }));
    this.#isPlain = isPlainDelimiter(delimiter) && missingValues.every((text) => numberOf(text) === null);
    this.#uri = uri;
    this.#delimiter = delimiter;
    this.#delimiterByte = delimiter.charCodeAt(0);
    this.#decode = textDecoder(options.encoding ?? 'utf-8');
    this.#hasHeader = hasHeader;
  }

  parse({ bytes, offset }: Line, decode: () => string): void {
    if (offset === 0 && this.#hasHeader) {
      const header = decode();
      refuseNoHeader(header);
      refuseReturn(header.includes('"') ? '' : header);
      return;
    }
    if (bytes.length === 0) {
      return;
    }
    // A byte order mark may precede the first line.
    const isScanned = offset > 0 && this.#isPlain && this.#scan(bytes);
    if (!isScanned && !this.#parseText(decode())) {
      return;
    }
    this.#rows++;
  }

  /** Reads the values of a line of any form. Returns false if the line is empty. */
  #parseText(line: string): boolean {
    if (line === '') {
      return false;
    }
    const values = splitFields(line, this.#delimiter);
    if (values.length !== this.#columns.length) {
      throw new Error(`the line must have ${this.#columns.length} values, but has ${values.length}`);
    }
    for (const [index, column] of this.#columns.entries()) {
      column?.set(this.#rows, column.convert(values[index] as string));
    }
    return true;
  }

  /** Reads the values of a line without quotes. Returns false if the line is damaged, or has a form that needs another look. */
  #scan(line: Buffer): boolean {
    const last = this.#columns.length - 1;
    let at = 0;
    for (let index = 0; index <= last; index++) {
      const end = this.#scanValue(line, at, this.#columns[index] as CsvColumn | null);
      if (end === -1 || (index === last) !== (end === line.length)) {
        return false;
      }
      at = end + 1;
    }
    return true;
  }

  /** Reads the value that begins at `at`. Returns the position behind it, or -1 if it needs another look. */
  #scanValue(line: Buffer, at: number, column: CsvColumn | null): number {
    if (column !== null && column.dtype !== 'string' && column.dtype !== 'bool') {
      const number = this.#numbers.read(line, at);
      const { end } = this.#numbers;
      const isWhole = end === line.length || line[end] === this.#delimiterByte;
      if (isWhole && (column.dtype === 'int32' ? (number | 0) === number : !Number.isNaN(number))) {
        column.set(this.#rows, number);
        return end;
      }
    }
    let end = at;
    for (; end < line.length && line[end] !== this.#delimiterByte; end++) {
      if (line[end] === QUOTE || line[end] === RETURN) {
        return -1;
      }
    }
    try {
      column?.set(this.#rows, column.convert(this.#decode(line.subarray(at, end))));
      return end;
    } catch {
      return -1;
    }
  }

  take(): RowPlace[] {
    const rows = this.#rows;
    this.#rows = 0;
    const values = this.#columns.flatMap((column) => column?.take(rows) ?? []);
    const order = Uint32Array.from({ length: rows }, (_, row) => row);
    return placesIn(new TablePart(this.#table, values, { order, whereOf: () => this.#uri }), 0, rows);
  }
}

/** Returns true for a delimiter of one byte that no number contains. */
function isPlainDelimiter(delimiter: string): boolean {
  return delimiter.charCodeAt(0) < 0x80 && !/[\d.-]/.test(delimiter);
}

function columnOf(name: string, config: ColumnConfig, missing: ReadonlySet<string>): CsvColumn {
  const { dtype } = config;
  return new CsvColumn(name, dtype, (text) => (missing.has(text) ? missingValue(name, config) : convert(name, text, dtype)));
}

function requireDistinct(names: readonly string[], uri: string): void {
  const seen = new Set<string>();
  for (const name of names) {
    if (seen.has(name)) {
      throw new TonyError('DATA_INVALID', `${uri}, byte 0: two columns are called ${JSON.stringify(name)}`, {
        hint: 'Set columnNames to a list of different names, or select columns with columnConfigs and configuredColumnsOnly.',
      });
    }
    seen.add(name);
  }
}

/** Returns the names in a file's header. Returns null if the header is damaged, or if the file is empty and thus has no rows either. */
async function readHeader(
  file: DataFile,
  delimiter: string,
  options: LineRecordOptions,
  context: ReadContext,
  onDamage: (damage: TonyError) => void,
): Promise<readonly string[] | null> {
  try {
    const header = await firstLine(file, options, context);
    if (header === null) {
      return null;
    }
    return decoding(`${file.uri}, byte 0`, () => {
      refuseNoHeader(header);
      return splitFields(header, delimiter).map((name) => name.trim());
    });
  } catch (error) {
    skipUnreadable(error, onDamage);
    return null;
  }
}

/** @throws Error if a file's first line is not a header */
function refuseNoHeader(line: string): void {
  const [, excel] = /^sep=(.)$/i.exec(line) ?? [];
  if (excel !== undefined) {
    throw new Error(
      `the first line, ${line}, is not a header, but names Excel's delimiter; delete the line, and set delimiter: '${excel}'`,
    );
  }
  if (line === '') {
    throw new Error('the first line is empty, but must contain the column names; delete the line, or set columnNames and hasHeader: false');
  }
}

/**
 * Splits a line at the delimiters outside quotes. LineSplitter follows the same rules.
 * @throws Error if a quote is in the wrong place, or if a carriage return outside quotes looks like the end of a line.
 */
export function splitFields(line: string, delimiter: string): string[] {
  if (!line.includes('"')) {
    refuseReturn(line);
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
      refuseReturn(value);
      fields.push(value);
      at = end === -1 ? line.length : end;
    }
    if (at >= line.length) {
      return fields;
    }
    at++;
  }
}

function refuseReturn(text: string): void {
  if (text.includes('\r')) {
    throw new Error('a carriage return without a line feed is outside quotes; lines must end with LF or CRLF');
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
  const number = numberOf(text);
  if (dtype === undefined) {
    return number === null ? text : exactNumber(name, text, number);
  }
  if (number === null) {
    throw new Error(`column ${name} has ${JSON.stringify(text)}, which is not a number`);
  }
  if (dtype === 'int32' && (number | 0) !== number) {
    throw new Error(`column ${name} has ${text}, which is not a 32-bit integer`);
  }
  return number;
}

/** The spellings of Python, NumPy and pandas. JavaScript knows only `Infinity` and `NaN`. */
const SPECIAL: Readonly<Record<string, number>> = { nan: Number.NaN, inf: Infinity, infinity: Infinity };

/** Returns a decimal number, an infinity or NaN, or null for other text. Text such as `0x1F`, which is usually an identifier, is no number. */
function numberOf(text: string): number | null {
  const number = Number(text);
  if (!Number.isNaN(number)) {
    return text.trim() === '' || /^\s*0[box]/i.test(text) ? null : number;
  }
  const [, sign, word = ''] = /^\s*([+-]?)([a-z]+)\s*$/i.exec(text) ?? [];
  const special = Object.hasOwn(SPECIAL, word.toLowerCase()) ? SPECIAL[word.toLowerCase()] : undefined;
  return special === undefined ? null : sign === '-' ? -special : special;
}

/** @throws Error if the text is an integer that a number does not represent exactly. */
function exactNumber(name: string, text: string, number: number): number {
  if (Math.abs(number) > Number.MAX_SAFE_INTEGER && /^\s*[+-]?\d+\s*$/.test(text)) {
    throw new Error(
      `column ${name} has ${text.trim()}, which is outside the range in which a number represents every integer exactly; ` +
        `to read the column as text: columnConfigs: { ${name}: { dtype: 'string' } }`,
    );
  }
  return number;
}
