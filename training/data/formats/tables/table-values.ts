import { TonyError } from '../../../../platform/errors.ts';
import { arrayOf, type FieldKind, type ScalarKind, scalarConverter, type TableValue, type ValueKind } from './value-kinds.ts';

/*
 * The values of Parquet columns and Avro fields, as elements of a dataset. Numbers stay numbers, so that `batch` collects them into columns.
 * Lists of numbers become typed arrays, which `batch` stacks if all lists of a column have the same length.
 */

export type TableRow = Readonly<Record<string, TableValue>>;

export interface TableOptions {
  /** Names of the columns to read. Default: all columns. */
  readonly columns?: readonly string[];
  /**
   * Values that replace missing values, by column. In all other columns, a missing value is an error. For a struct, an object replaces the
   * missing values of its fields: `{ place: { height: 0 } }`. For a list, a list replaces a missing list, and any other value replaces
   * missing items.
   */
  readonly fill?: Readonly<Record<string, TableValue>>;
}

export type Converter = (stored: unknown) => TableValue;

/**
 * Returns the selected columns, in file order.
 * @throws TonyError DATA_INVALID if the file lacks a column named in `columns` or `fill`, or has two selected columns of the same name.
 */
export function selectColumns<T extends { readonly name: string }>(all: readonly T[], options: TableOptions, where: string): readonly T[] {
  const names = new Set(all.map(({ name }) => name));
  const unknown = [...(options.columns ?? []), ...Object.keys(options.fill ?? {})].find((name) => !names.has(name));
  if (unknown !== undefined) {
    throw new TonyError('DATA_INVALID', `${where} has no column ${unknown} (columns: ${[...names].join(', ')})`);
  }
  const wanted = new Set(options.columns);
  const chosen = options.columns === undefined ? all : all.filter(({ name }) => wanted.has(name));
  requireDistinct(chosen, `${where} has two columns called`);
  return chosen;
}

/** @throws TonyError DATA_INVALID if two fields have the same name. */
export function requireDistinct(fields: readonly { readonly name: string }[], message: string): void {
  const seen = new Set<string>();
  for (const { name } of fields) {
    if (seen.has(name)) {
      throw new TonyError('DATA_INVALID', `${message} ${name}`, { hint: 'Name the columns to read: `columns: [...]`.' });
    }
    seen.add(name);
  }
}

/**
 * Returns a function that converts one value of a column. The function throws an Error if no element can hold the value.
 * @param where the file, for error messages.
 * @throws TonyError DATA_INVALID if `fill` names a field that the column does not have.
 */
export function columnConverter({ name, kind }: FieldKind, { fill = {} }: TableOptions, where: string): Converter {
  const own = Object.hasOwn(fill, name) ? fill[name] : undefined;
  checkFill([name], kind, own, where);
  return fieldConverter([name], kind, own);
}

type Fill = TableValue | undefined;

const ONE_FILL =
  '`fill` replaces either missing lists (by a list) or missing items (by a value), but not both; replace one of them in the program that writes the file, or select other columns';

function checkFill(path: readonly string[], kind: ValueKind, fill: Fill, where: string): void {
  if (typeof kind !== 'object' || !isObject(fill)) {
    return;
  }
  if ('list' in kind) {
    checkFill(path, kind.list, fill, where);
  } else if ('fields' in kind) {
    for (const [name, value] of Object.entries(fill)) {
      const field = kind.fields.find((each) => each.name === name);
      if (field === undefined) {
        throw new TonyError('DATA_INVALID', `${where}: column ${path.join('.')} has no field ${name}, which \`fill\` names`);
      }
      checkFill([...path, name], field.kind, value, where);
    }
  }
}

/** Returns a function that converts one value, or replaces it if it is missing. */
function fieldConverter(path: readonly string[], kind: ValueKind, fill: Fill): Converter {
  const convert = presentConverter(path, kind, fill);
  const isStruct = typeof kind === 'object' && 'fields' in kind && isObject(fill);
  const isForItems = typeof kind === 'object' && 'list' in kind && !isList(fill);
  return (stored) => {
    if (stored !== null && stored !== undefined) {
      return convert(stored);
    }
    if (isStruct) {
      // All fields of a missing struct are missing.
      return convert([]);
    }
    if (fill === undefined) {
      throw new Error(`column ${path.join('.')} has no value; select other columns, or set a replacement: ${fillExample(path)}`);
    }
    if (isForItems) {
      throw new Error(`column ${path.join('.')} has no list; ${ONE_FILL}`);
    }
    return fill;
  };
}

function fillExample(path: readonly string[]): string {
  return `fill: ${path.reduceRight((inner, name) => `{ ${name}: ${inner} }`, '...')}`;
}

function presentConverter(path: readonly string[], kind: ValueKind, fill: Fill): Converter {
  if (typeof kind === 'object' && 'list' in kind) {
    return listConverter(path, kind.list, fill);
  }
  if (typeof kind === 'object' && 'fields' in kind) {
    return structConverter(path, kind.fields, isObject(fill) ? fill : {});
  }
  return scalarConverter(kind);
}

function listConverter(path: readonly string[], kind: ValueKind, fillOfColumn: Fill): Converter {
  const fill = isList(fillOfColumn) ? undefined : fillOfColumn;
  const convert = fieldConverter(path, kind, fill);
  const missing = (): TableValue => {
    if (fillOfColumn !== fill) {
      throw new Error(`a list in column ${path.join('.')} contains a missing value; ${ONE_FILL}`);
    }
    if (fill === undefined) {
      throw new Error(`a list in column ${path.join('.')} contains a missing value; set a replacement: ${fillExample(path)}`);
    }
    return convert(undefined);
  };
  const Numbers = arrayOf(kind);
  if (Numbers === null) {
    return (stored) => (stored as readonly unknown[]).map((item) => (item === null || item === undefined ? missing() : convert(item)));
  }
  const toNumber = kind === 'float' || kind === 'double' ? null : (scalarConverter(kind as ScalarKind) as (stored: unknown) => number);
  const isInteger = Numbers === Int32Array;
  const isPlain = toNumber === null || kind === 'integer';
  return (stored) => {
    if (isPlain && stored instanceof Numbers) {
      return stored.slice();
    }
    const values = stored as ArrayLike<unknown>;
    const numbers = new Numbers(values.length);
    // A loop is several times as fast as `Numbers.from`.
    for (let at = 0; at < values.length; at++) {
      const item = values[at];
      const number = (item === null || item === undefined ? missing() : toNumber === null ? item : toNumber(item)) as number;
      if (isInteger && (number | 0) !== number) {
        throw new Error(`a list in column ${path.join('.')} contains ${item}, which is not a 32-bit integer`);
      }
      numbers[at] = number;
    }
    return numbers;
  };
}

function structConverter(path: readonly string[], fields: readonly FieldKind[], fill: Readonly<Record<string, TableValue>>): Converter {
  // Created with the first value, because a schema can refer to the same type any number of times.
  let converters: readonly (readonly [string, Converter])[] | null = null;
  return (stored) => {
    converters ??= fields.map(({ name, kind }) => {
      return [name, fieldConverter([...path, name], kind, Object.hasOwn(fill, name) ? fill[name] : undefined)] as const;
    });
    const values = stored as ArrayLike<unknown>;
    // An assignment to a field called `__proto__` would be lost.
    return Object.fromEntries(converters.map(([name, convert], index) => [name, convert(values[index])]));
  };
}

function isList(fill: Fill): boolean {
  return Array.isArray(fill) || (ArrayBuffer.isView(fill) && !Buffer.isBuffer(fill));
}

function isObject(fill: Fill): fill is Readonly<Record<string, TableValue>> {
  return typeof fill === 'object' && !Array.isArray(fill) && !ArrayBuffer.isView(fill);
}
