import { TonyError } from '../../conf/errors.ts';
import type { Column } from '../idx.ts';
import { readBytesList, readFloatList, scanExample, scanInt64List } from './example.ts';
import type { WireReader } from './wire.ts';

type DType = 'float32' | 'int64' | 'string';

/** As tf.io.FixedLenFeature: exactly so many values as the shape has places. */
export interface FixedLenFeature<D extends DType = DType, S extends readonly number[] = readonly number[]> {
  readonly shape: S;
  readonly dtype: D;
  /** For examples without the feature; without one they are an error. */
  readonly default?: D extends 'string' ? Buffer | string : number;
}

/** As tf.io.VarLenFeature: as many values as there are, none when the feature is missing. */
export interface VarLenFeature<D extends DType = DType> {
  readonly dtype: D;
}

export type ExampleSchema = Readonly<Record<string, FixedLenFeature | VarLenFeature>>;

/** A scalar (shape []) is a number or a Buffer, one of another shape a column of that shape, one without a shape an array. */
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

/** `fixedLenFeature([28, 28], 'float32')`, `fixedLenFeature([], 'int64', -1)`. */
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

type Parser = (value: WireReader | null) => unknown;

/**
 * As tf.io.parse_single_example: the features that the schema names, in the shapes that it gives, as what batches can be made of. Other
 * features are passed over unread. int64 becomes int32, as tensors of TensorFlow.js have it.
 *
 * @returns a function of a record. It throws TonyError DATA_INVALID for an example that does not have the schema's features, or has an int64
 *   beyond 32 bits (decodeExample gives those as bigints).
 */
export function parseExample<const Schema extends ExampleSchema>(schema: Schema): (record: Uint8Array) => ParsedExample<Schema> {
  const names = Object.keys(schema);
  const places = new Map(names.map((name, index) => [name, index]));
  const parsers = names.map((name) => parserOf(name, schema[name] as FixedLenFeature | VarLenFeature));
  return (record) => {
    const found = new Array<WireReader | null>(names.length).fill(null);
    scanExample(record, (name, value) => {
      const place = places.get(name);
      // A feature without a kind counts as missing, as in TensorFlow.
      if (place !== undefined) found[place] = value.isAtEnd ? null : value;
    });
    const result: Record<string, unknown> = {};
    names.forEach((name, index) => {
      result[name] = (parsers[index] as Parser)(found[index] as WireReader | null);
    });
    return result as ParsedExample<Schema>;
  };
}

function parserOf(name: string, feature: FixedLenFeature | VarLenFeature): Parser {
  const read = readerOf(name, feature.dtype);
  if (!('shape' in feature)) return (value) => read(value);
  const { shape, dtype, default: whenMissing } = feature;
  const count = shape.reduce((product, size) => product * size, 1);
  const missing = whenMissing === undefined ? null : defaultOf(dtype, count, whenMissing);
  return (value) => {
    if (value === null && missing === null) throw new TonyError('DATA_INVALID', `the example has no feature ${name}`);
    const values = value === null ? (missing as ReturnType<typeof read>) : read(value);
    if (values.length !== count) {
      throw new TonyError('DATA_INVALID', `feature ${name} has ${values.length} values; its shape [${shape}] takes ${count}`);
    }
    if (shape.length === 0) return values[0];
    return dtype === 'string' ? values : ({ values: values as Float32Array | Int32Array, shape } satisfies Column);
  };
}

function defaultOf(dtype: DType, count: number, value: number | Buffer | string): Float32Array | Int32Array | Buffer[] {
  if (dtype === 'string') return new Array<Buffer>(count).fill(typeof value === 'string' ? Buffer.from(value) : (value as Buffer));
  return dtype === 'float32' ? new Float32Array(count).fill(value as number) : new Int32Array(count).fill(value as number);
}

const KINDS = ['', 'string', 'float32', 'int64'] as const;

function readerOf(name: string, dtype: DType): (value: WireReader | null) => Float32Array | Int32Array | Buffer[] {
  const listOf = (feature: WireReader): WireReader => {
    let list: WireReader | null = null;
    while (!feature.isAtEnd) {
      const tag = feature.size();
      const kind = (tag & 7) === 2 ? KINDS[tag >>> 3] : undefined;
      if (kind === undefined) {
        feature.skip(tag & 7);
        continue;
      }
      if (kind !== dtype) throw new TonyError('DATA_INVALID', `feature ${name} is ${kind}, not ${dtype}`);
      list = feature.message();
    }
    return list ?? feature;
  };
  switch (dtype) {
    case 'string':
      return (value) => (value === null ? [] : readBytesList(listOf(value)));
    case 'float32':
      return (value) => (value === null ? new Float32Array(0) : readFloatList(listOf(value)));
    case 'int64':
      return (value) => (value === null ? new Int32Array(0) : readInt32List(name, listOf(value)));
  }
}

function readInt32List(name: string, list: WireReader): Int32Array {
  const values: number[] = [];
  scanInt64List(list, (low, high) => {
    const value = low | 0;
    if (value >> 31 !== high) throw new TonyError('DATA_INVALID', `feature ${name} has a number of more than 32 bits`);
    values.push(value);
  });
  return Int32Array.from(values);
}
