import { TonyError } from '../../../platform/errors.ts';
import type { Column } from '../../encoding/idx.ts';
import { WireReader } from '../../encoding/protobuf-reader.ts';
import { readBytesList, readFloatList, scanExample, scanInt64List, textOf } from './example.ts';

type DType = 'float32' | 'int64' | 'string';

/** Like tf.io.FixedLenFeature: each example has exactly as many values as the shape requires. */
export interface FixedLenFeature<D extends DType = DType, S extends readonly number[] = readonly number[]> {
  readonly shape: S;
  readonly dtype: D;
  /** The value for examples without the feature. Without a default, a missing feature is an error. */
  readonly default?: D extends 'string' ? Buffer | string : number;
}

/** Like tf.io.VarLenFeature: each example has any number of values; a missing feature has none. */
export interface VarLenFeature<D extends DType = DType> {
  readonly dtype: D;
}

export type ExampleSchema = Readonly<Record<string, FixedLenFeature | VarLenFeature>>;

/**
 * The result of `parseExample`: a number or a Buffer for a scalar (shape []), a column for any other shape, and an array for a feature
 * without a shape.
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

/** Describes a feature with a fixed shape: `fixedLenFeature([28, 28], 'float32')`, `fixedLenFeature([], 'int64', -1)`. */
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

type Parser = (feature: WireReader | null) => unknown;

/**
 * Returns a function that parses one record, like tf.io.parse_single_example. The result contains the schema's features in the schema's
 * shapes, ready for batching. All other features are skipped without parsing. int64 becomes int32, the integer type of TensorFlow.js
 * tensors.
 * @returns the parser. It throws TonyError DATA_INVALID for a missing feature, a wrong type, or an int64 that exceeds 32 bits
 *   (`decodeExample` returns such numbers as bigints).
 */
export function parseExample<const Schema extends ExampleSchema>(schema: Schema): (record: Uint8Array) => ParsedExample<Schema> {
  const names = Object.keys(schema);
  const places = new FeaturePlaces(names);
  const parsers = names.map((name) => parserOf(name, schema[name] as FixedLenFeature | VarLenFeature));
  const reader = new WireReader();
  const [starts, ends] = [new Int32Array(names.length), new Int32Array(names.length)];
  return (record) => {
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
      // As in TensorFlow, an empty Feature message means that the feature is missing.
      const feature = end <= start ? null : reader.reset(record, start, end);
      result[names[place] as string] = (parsers[place] as Parser)(feature);
    }
    return result as ParsedExample<Schema>;
  };
}

/**
 * Maps feature names to positions in the schema. The examples of a file usually have the same features in the same order. Each name is
 * therefore first compared with the name at the same place in the previous example.
 */
class FeaturePlaces {
  readonly #places: ReadonlyMap<string, number>;
  /** The names in the order of the previous example with their positions in the schema; -1 for a name outside the schema. */
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
  // An upper bound, because each number occupies at least one byte.
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
