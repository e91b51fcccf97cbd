import type { Column } from '../../../contract/encoding/idx.ts';
import { WireReader } from '../../../contract/encoding/protobuf-reader.ts';
import { isAnything, isOneOf, isOptions, isRecordOf, isWhole, type OptionRule } from '../../../platform/check-options.ts';
import { TonyError } from '../../../platform/errors.ts';
import { describeValue } from '../../../platform/text/describe-value.ts';
import { collate } from '../transforms/collate.ts';
import { BATCH_CONVERSION } from '../transforms/map.ts';
import { readBytesList, readFloatList, readFloats, scanExample, scanInt64List, textOf } from './example.ts';
import { setField } from './set-field.ts';

type DType = 'float32' | 'int64' | 'string';

/** A feature that has the same number of values in each example, like tf.io.FixedLenFeature. */
export interface FixedLenFeature<D extends DType = DType, S extends readonly number[] = readonly number[]> {
  readonly shape: S;
  readonly dtype: D;
  /** Value for examples that lack the feature. If no default is set, such an example causes an error. */
  readonly default?: D extends 'string' ? Buffer | string : number;
}

/** A feature that may have any number of values in each example, like tf.io.VarLenFeature. A missing feature has no values. */
export interface VarLenFeature<D extends DType = DType> {
  readonly dtype: D;
}

export type ExampleSchema = Readonly<Record<string, FixedLenFeature | VarLenFeature>>;

/**
 * A parsed example's features. A scalar (shape []) is a number or a Buffer, a feature with any other shape is a column, and a feature
 * without a shape is an array.
 */
export type ParsedExample<Schema extends ExampleSchema> = {
  [Name in keyof Schema]: Schema[Name] extends { readonly shape: infer S; readonly dtype: infer D }
    ? D extends 'string'
      ? S extends readonly []
        ? Buffer
        : Buffer[]
      : S extends readonly []
        ? number
        : Column
    : Schema[Name] extends { readonly dtype: 'string' }
      ? Buffer[]
      : Schema[Name] extends { readonly dtype: 'int64' }
        ? Int32Array
        : Float32Array;
};

/** Describes a feature with a fixed shape, for example `fixedLenFeature([28, 28], 'float32')` or `fixedLenFeature([], 'int64', -1)`. */
export function fixedLenFeature<D extends DType, const S extends readonly number[]>(
  shape: S,
  dtype: D,
  defaultValue?: D extends 'string' ? Buffer | string : number,
): FixedLenFeature<D, S> {
  return { shape, dtype, ...(defaultValue === undefined ? {} : { default: defaultValue }) };
}

export function varLenFeature<D extends DType>(dtype: D): VarLenFeature<D> {
  return { dtype };
}

const isDType = isOneOf('float32', 'int64', 'string');
const isFixedLen = isOptions<FixedLenFeature>({
  shape: (value) => (Array.isArray(value) && value.every((size) => isWhole(0)(size) === null) ? null : 'a list of sizes'),
  dtype: isDType,
  default: isAnything,
});
const isVarLen = isOptions<VarLenFeature>({ dtype: isDType });
const isFeature: OptionRule = (value, name) => {
  const { shape, dtype } = Object(value) as Partial<FixedLenFeature>;
  const expected = (shape === undefined ? isVarLen : isFixedLen)(value, name);
  return expected === null && dtype !== undefined ? null : 'fixedLenFeature(...) or varLenFeature(...)';
};

/** A feature of a record, or null if the record lacks it. */
type FeatureMessage = WireReader | null;

interface FeatureParser {
  parse(feature: FeatureMessage): unknown;
  /** Creates the column of a batch of `size` records. Undefined for features that are no numbers of a fixed shape. */
  readonly createColumn?: (size: number) => FeatureColumn;
}

interface FeatureColumn {
  readonly column: Column;
  /** Stores the feature of record number `index`. */
  put(feature: FeatureMessage, index: number): void;
}

/**
 * Returns a function that parses one record, like tf.io.parse_single_example. The result contains the features of the schema and can be
 * batched. All other features are skipped. TensorFlow.js has no int64 tensors, so int64 values become int32. `batch` directly after
 * `map(parseExample(...))` copies numbers from the records to the batch, without an object for each record.
 * @returns the parser. The parser throws TonyError DATA_INVALID if a feature is missing, has the wrong type, or has a number that exceeds
 * 32 bits. For such numbers, use `decodeExample`, which returns bigints.
 */
export function parseExample<const Schema extends ExampleSchema>(schema: Schema): (record: Uint8Array) => ParsedExample<Schema> {
  isRecordOf(isFeature)(schema, 'the schema of parseExample');
  const names = Object.keys(schema);
  const places = new FeaturePlaces(names);
  const parsers = names.map((name) => parserOf(name, schema[name] as FixedLenFeature | VarLenFeature));
  const reader = new WireReader();
  const [starts, ends] = [new Int32Array(names.length), new Int32Array(names.length)];
  const find = (record: Uint8Array): void => {
    if (!(record instanceof Uint8Array)) {
      throw new TonyError('USAGE', `parseExample expects the bytes of a record, found ${describeValue(record)}`);
    }
    ends.fill(-1);
    places.begin();
    scanExample(reader.reset(record), (nameFrom, nameTo, from, to) => {
      const place = places.of(record, nameFrom, nameTo);
      if (place >= 0) {
        starts[place] = from;
        ends[place] = to;
      }
    });
  };
  const found = (record: Uint8Array, place: number): FeatureMessage => {
    const [start, end] = [starts[place] as number, ends[place] as number];
    // As in TensorFlow, an empty Feature message stands for a missing feature.
    return end <= start ? null : reader.reset(record, start, end);
  };
  const parse = (record: Uint8Array): ParsedExample<Schema> => {
    find(record);
    const result: Record<string, unknown> = {};
    for (const [place, parser] of parsers.entries()) {
      setField(result, names[place] as string, parser.parse(found(record, place)));
    }
    return result as ParsedExample<Schema>;
  };
  const parseBatch = (records: readonly Uint8Array[], first: number): Record<string, unknown> => {
    const columns = parsers.map(({ createColumn }) => createColumn?.(records.length) ?? null);
    const values = parsers.map((): unknown[] => []);
    for (const [index, record] of records.entries()) {
      find(record);
      for (const [place, parser] of parsers.entries()) {
        const feature = found(record, place);
        const column = columns[place] as FeatureColumn | null;
        if (column === null) {
          (values[place] as unknown[]).push(parser.parse(feature));
        } else {
          column.put(feature, index);
        }
      }
    }
    const batched = (place: number) => columns[place]?.column ?? collate(values[place] as unknown[], first, names[place]);
    return Object.fromEntries(names.map((name, place) => [name, batched(place)]));
  };
  return Object.assign(parse, { [BATCH_CONVERSION]: parseBatch });
}

/**
 * Maps feature names to positions in the schema. The examples in a file usually have the same features in the same order, so each name is
 * first compared with the name at the same place in the previous example.
 */
class FeaturePlaces {
  readonly #places: ReadonlyMap<string, number>;
  /**
   * The previous example's feature names, in order, with their positions in the schema. The position is -1 if the schema does not contain
   * the name.
   */
  readonly #order: { readonly name: Uint8Array; readonly place: number }[] = [];
  #turn = 0;

  constructor(names: readonly string[]) {
    this.#places = new Map(names.map((name, index) => [name, index]));
  }

  begin(): void {
    this.#turn = 0;
  }

  of(bytes: Uint8Array, from: number, to: number): number {
    const expected = this.#order[this.#turn];
    if (expected !== undefined && isSame(expected.name, bytes, from, to)) {
      this.#turn++;
      return expected.place;
    }
    const place = this.#places.get(textOf(bytes, from, to)) ?? -1;
    if (this.#turn < MAX_REMEMBERED) {
      this.#order[this.#turn++] = { name: Uint8Array.from(bytes.subarray(from, to)), place };
    }
    return place;
  }
}

const MAX_REMEMBERED = 256;

function isSame(name: Uint8Array, bytes: Uint8Array, from: number, to: number): boolean {
  if (name.length !== to - from) {
    return false;
  }
  for (let index = 0; index < name.length; index++) {
    if (name[index] !== bytes[from + index]) {
      return false;
    }
  }
  return true;
}

function parserOf(name: string, schema: FixedLenFeature | VarLenFeature): FeatureParser {
  if (!('shape' in schema)) {
    const [none, read] = LISTS[schema.dtype];
    return { parse: (feature) => readList<unknown>(feature, name, schema.dtype, (list) => read(list, name)) ?? none() };
  }
  return schema.dtype === 'string' ? textParser(name, schema) : numberParser(name, schema);
}

function textParser(name: string, schema: FixedLenFeature): FeatureParser {
  const { shape, default: missing } = schema;
  const count = sizeOf(schema);
  const none = new Array<unknown>(count).fill(typeof missing === 'string' ? Buffer.from(missing) : missing);
  return {
    parse: (feature) => {
      const values = isMissing(feature, name, schema) ? none : (readList(feature, name, 'string', readBytesList) ?? []);
      checkCount(values.length, name, schema);
      return shape.length === 0 ? values[0] : values;
    },
  };
}

function numberParser(name: string, schema: FixedLenFeature): FeatureParser {
  const { shape, dtype, default: missing } = schema;
  const count = sizeOf(schema);
  const Numbers = dtype === 'float32' ? Float32Array : Int32Array;
  const read = (list: WireReader, target: Numbers, at: number): number =>
    dtype === 'float32' ? readFloats(list, target as Float32Array, at, count) : readInt32s(list, name, target, at, count);
  const store = (feature: FeatureMessage, target: Numbers, at: number): void => {
    if (isMissing(feature, name, schema)) {
      target.fill(missing as number, at, at + count);
    } else {
      checkCount(readList(feature, name, dtype, (list) => read(list, target, at)) ?? 0, name, schema);
    }
  };
  const scalar = new Numbers(1);
  return {
    parse: (feature) => {
      const values = shape.length === 0 ? scalar : new Numbers(count);
      store(feature, values, 0);
      return shape.length === 0 ? values[0] : ({ values, shape } satisfies Column);
    },
    createColumn: (size) => {
      // As in `collate`, single numbers become float32.
      const values = shape.length === 0 ? new Float32Array(size) : new Numbers(size * count);
      return { column: { values, shape: [size, ...shape] }, put: (feature, index) => store(feature, values, index * count) };
    },
  };
}

type Numbers = Float32Array | Int32Array;

function sizeOf({ shape }: FixedLenFeature): number {
  return shape.reduce((product, size) => product * size, 1);
}

/** @throws TonyError DATA_INVALID if the feature is missing and has no default. */
function isMissing(feature: FeatureMessage, name: string, schema: FixedLenFeature): feature is null {
  if (feature === null && schema.default === undefined) {
    throw new TonyError('DATA_INVALID', `the example has no feature ${name}`);
  }
  return feature === null;
}

function checkCount(count: number, name: string, schema: FixedLenFeature): void {
  if (count !== sizeOf(schema)) {
    throw new TonyError('DATA_INVALID', `feature ${name} has ${count} values; its shape [${schema.shape}] requires ${sizeOf(schema)}`);
  }
}

const KINDS = ['', 'string', 'float32', 'int64'] as const;

/** Reads the list of a feature. Returns null if there is none. If there are several lists, the last one applies. */
function readList<T>(feature: FeatureMessage, name: string, dtype: DType, read: (list: WireReader) => T): T | null {
  let result: T | null = null;
  while (feature !== null && !feature.isAtEnd) {
    const tag = feature.size();
    const kind = (tag & 7) === 2 ? KINDS[tag >>> 3] : undefined;
    if (kind === undefined || kind === '') {
      feature.skip(tag & 7);
      continue;
    }
    if (kind !== dtype) {
      throw new TonyError('DATA_INVALID', `feature ${name} is ${kind}, not ${dtype}`);
    }
    const outer = feature.enter();
    result = read(feature);
    feature.leave(outer);
  }
  return result;
}

const LISTS = {
  string: [() => [], readBytesList],
  float32: [() => new Float32Array(0), readFloatList],
  int64: [() => new Int32Array(0), readInt32List],
} as const satisfies Record<DType, readonly [none: () => unknown, read: (list: WireReader, name: string) => unknown]>;

function readInt32List(list: WireReader, name: string): Int32Array {
  // Each number takes up at least one byte, so this length is sufficient.
  const values = new Int32Array(list.end - list.at);
  const count = readInt32s(list, name, values, 0, values.length);
  return values.slice(0, count);
}

/** Reads integers into `target`, like `readFloats`. */
function readInt32s(list: WireReader, name: string, target: Numbers, at: number, most: number): number {
  let count = 0;
  scanInt64List(list, (low, high) => {
    const value = low | 0;
    if (value >> 31 !== high) {
      throw new TonyError('DATA_INVALID', `feature ${name} has a number that does not fit into 32 bits`);
    }
    if (count < most) {
      target[at + count] = value;
    }
    count++;
  });
  return count;
}
