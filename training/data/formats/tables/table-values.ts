import { TonyError } from '../../../../platform/errors.ts';

/*
 * The values of Parquet columns and Avro fields, as elements of a dataset. Numbers stay numbers, so that `batch` collects them into columns.
 * Lists of numbers become typed arrays, which `batch` stacks if all lists of a column have the same length.
 */

export type TableValue =
  | number
  | boolean
  | string
  | Buffer
  | Int32Array
  | Float32Array
  | Float64Array
  | readonly TableValue[]
  | { readonly [name: string]: TableValue };

export type TableRow = Readonly<Record<string, TableValue>>;

export interface TableOptions {
  /** Names of the columns to read. Default: all columns. */
  readonly columns?: readonly string[];
  /** Values that replace missing values, by column. In all other columns, a missing value is an error. */
  readonly fill?: Readonly<Record<string, TableValue>>;
}

export type ValueKind =
  | 'boolean'
  | 'integer'
  | 'float'
  | 'double'
  | 'text'
  | 'bytes'
  | { readonly list: ValueKind }
  | { readonly fields: Readonly<Record<string, ValueKind>> };

export interface TableColumn {
  readonly name: string;
  readonly kind: ValueKind;
}

/**
 * Returns the selected columns, in file order.
 * @throws TonyError DATA_INVALID if the file lacks a column named in `columns` or `fill`.
 */
export function selectColumns<T extends { readonly name: string }>(all: readonly T[], options: TableOptions, where: string): readonly T[] {
  const names = all.map(({ name }) => name);
  const unknown = [...(options.columns ?? []), ...Object.keys(options.fill ?? {})].find((name) => !names.includes(name));
  if (unknown !== undefined) {
    throw new TonyError('DATA_INVALID', `${where} has no column ${unknown} (columns: ${names.join(', ')})`);
  }
  return all.filter(({ name }) => options.columns?.includes(name) ?? true);
}

/** Returns a function that converts one value of a column. The function throws an Error if no tensor can hold the value. */
export function valueConverter({ name, kind }: TableColumn, { fill = {} }: TableOptions): (value: unknown) => TableValue {
  const convert = converterOf(kind);
  const replacement = fill[name];
  return (value) => {
    if (value !== null && value !== undefined) {
      return convert(value);
    }
    if (replacement === undefined) {
      throw new Error(`column ${name} has no value; select other columns, or set a replacement: fill: { ${name}: ... }`);
    }
    return replacement;
  };
}

function converterOf(kind: ValueKind): (value: unknown) => TableValue {
  if (typeof kind === 'object') {
    return 'list' in kind ? listConverter(kind.list) : fieldsConverter(kind.fields);
  }
  switch (kind) {
    case 'integer':
      return integer;
    case 'bytes':
      return (value) => Buffer.from((value as Uint8Array).buffer, (value as Uint8Array).byteOffset, (value as Uint8Array).byteLength);
    default:
      return (value) => value as TableValue;
  }
}

function integer(value: unknown): number {
  const number = Number(value);
  if (!Number.isSafeInteger(number)) {
    throw new Error(`the value ${value} is outside the range in which a number represents every integer exactly`);
  }
  return number;
}

const ARRAYS = { integer: Int32Array, float: Float32Array, double: Float64Array } as const;

function listConverter(kind: ValueKind): (value: unknown) => TableValue {
  if (kind === 'integer' || kind === 'float' || kind === 'double') {
    const Numbers = ARRAYS[kind];
    const convert = kind === 'integer' ? int32 : Number;
    return (value) => {
      const values = value as ArrayLike<unknown>;
      const numbers = new Numbers(values.length);
      // A loop is several times as fast as `Numbers.from`.
      for (let at = 0; at < values.length; at++) {
        numbers[at] = convert(present(values[at]));
      }
      return numbers;
    };
  }
  const convert = converterOf(kind);
  return (value) => (value as readonly unknown[]).map((item) => convert(present(item)));
}

function present(value: unknown): unknown {
  if (value === null || value === undefined) {
    throw new Error('a list contains a missing value');
  }
  return value;
}

/** TensorFlow.js tensors can hold only 32-bit integers. */
function int32(value: unknown): number {
  const number = Number(value);
  if ((number | 0) !== number) {
    throw new Error(`a list contains ${value}, which is not a 32-bit integer`);
  }
  return number;
}

function fieldsConverter(fields: Readonly<Record<string, ValueKind>>): (value: unknown) => TableValue {
  const converters = Object.entries(fields).map(([name, kind]) => [name, valueConverter({ name, kind }, {})] as const);
  return (value) => Object.fromEntries(converters.map(([name, convert]) => [name, convert((value as Record<string, unknown>)[name])]));
}
