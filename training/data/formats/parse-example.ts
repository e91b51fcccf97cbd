import type { Column } from '../../../contract/encoding/idx.ts';
import { WireReader } from '../../../contract/encoding/protobuf-reader.ts';
import { isAnything, isOneOf, isOptions, isRecordOf, isWhole, type OptionRule } from '../../../platform/check-options.ts';
import { TonyError } from '../../../platform/errors.ts';
import { describeValue } from '../../../platform/text/describe-value.ts';
import { readBytesList, readFloatList, scanExample, scanInt64List, textOf } from './example.ts';

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

type Parser = (feature: WireReader | null) => unknown;

/**
 * Returns a function that parses one record, like tf.io.parse_single_example. The result contains the features of the schema and can be
 * batched. All other features are skipped. TensorFlow.js has no int64 tensors, so int64 values become int32.
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
  return (record) => {
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
    const result: Record<string, unknown> = {};
    for (let place = 0; place < names.length; place++) {
      const [start, end] = [starts[place] as number, ends[place] as number];
      // As in TensorFlow, an empty Feature message stands for a missing feature.
      const feature = end <= start ? null : reader.reset(record, start, end);
      result[names[place] as string] = (parsers[place] as Parser)(feature);
    }
    return result as ParsedExample<Schema>;
  };
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

function parserOf(name: string, schema: FixedLenFeature | VarLenFeature): Parser {
  const read = readerOf(name, schema.dtype);
  if (!('shape' in schema)) {
    return read;
  }
  const { shape, dtype, default: whenMissing } = schema;
  const count = shape.reduce((product, size) => product * size, 1);
  const missing = whenMissing === undefined ? null : defaultOf(dtype, count, whenMissing);
  return (feature) => {
    if (feature === null && missing === null) {
      throw new TonyError('DATA_INVALID', `the example has no feature ${name}`);
    }
    const values = feature === null ? (missing as ReturnType<typeof read>) : read(feature);
    if (values.length !== count) {
      throw new TonyError('DATA_INVALID', `feature ${name} has ${values.length} values; its shape [${shape}] requires ${count}`);
    }
    if (shape.length === 0) {
      return values[0];
    }
    return dtype === 'string' ? values : ({ values: values as Float32Array | Int32Array, shape } satisfies Column);
  };
}

function defaultOf(dtype: DType, count: number, value: number | Buffer | string): Float32Array | Int32Array | Buffer[] {
  if (dtype === 'string') {
    return new Array<Buffer>(count).fill(typeof value === 'string' ? Buffer.from(value) : (value as Buffer));
  }
  return dtype === 'float32' ? new Float32Array(count).fill(value as number) : new Int32Array(count).fill(value as number);
}

const KINDS = ['', 'string', 'float32', 'int64'] as const;

function readerOf<Values extends Float32Array | Int32Array | Buffer[]>(name: string, dtype: DType): (feature: WireReader | null) => Values {
  const [none, readList] = LISTS[dtype];
  return (feature) => {
    let values: Float32Array | Int32Array | Buffer[] | null = null;
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
      values = readList(feature, name);
      feature.leave(outer);
    }
    return (values ?? none()) as Values;
  };
}

const LISTS = {
  string: [() => [], readBytesList],
  float32: [() => new Float32Array(0), readFloatList],
  int64: [() => new Int32Array(0), readInt32List],
} as const satisfies Record<
  DType,
  readonly [none: () => unknown, read: (list: WireReader, name: string) => Float32Array | Int32Array | Buffer[]]
>;

function readInt32List(list: WireReader, name: string): Int32Array {
  // Each number takes up at least one byte, so this length is sufficient.
  const values = new Int32Array(list.end - list.at);
  let count = 0;
  scanInt64List(list, (low, high) => {
    const value = low | 0;
    if (value >> 31 !== high) {
      throw new TonyError('DATA_INVALID', `feature ${name} has a number that does not fit into 32 bits`);
    }
    values[count++] = value;
  });
  return values.slice(0, count);
}
