import { bytes as bytesField, varintLength, writeBigVarint, writeVarint } from '../../../contract/encoding/protobuf.ts';
import { broken, WireReader } from '../../../contract/encoding/protobuf-reader.ts';
import { TonyError } from '../../../platform/errors.ts';

/*
 * tensorflow/core/example/{example,feature}.proto:
 *
 *   Example          { 1 features: Features }
 *   SequenceExample  { 1 context: Features, 2 feature_lists: FeatureLists }
 *   Features         { 1 feature: map<string, Feature> }                 an entry of a map is a message { 1 key, 2 value }
 *   FeatureLists     { 1 feature_list: map<string, FeatureList> }
 *   FeatureList      { 1 feature: repeated Feature }
 *   Feature          one of { 1 BytesList { 1 value: repeated bytes }, 2 FloatList { 1 value: repeated float, packed },
 *                             3 Int64List { 1 value: repeated int64, packed } }
 *
 * Repeated numbers may be packed or unpacked. If a map contains a key twice, the last entry applies.
 */

/** A feature's values. A Feature message without a list is decoded as an empty list of bytes. */
export type Feature =
  | { readonly kind: 'bytes'; readonly values: readonly Uint8Array[] }
  | { readonly kind: 'float'; readonly values: Float32Array }
  | { readonly kind: 'int64'; readonly values: BigInt64Array };

export type Features = Readonly<Record<string, Feature>>;

export interface SequenceExample {
  readonly context: Features;
  readonly featureLists: Readonly<Record<string, readonly Feature[]>>;
}

const FLOAT_BYTES = Float32Array.BYTES_PER_ELEMENT;

type OnEntry = (nameFrom: number, nameTo: number, valueFrom: number, valueTo: number) => void;

/**
 * Decodes all features of a serialised tf.train.Example. The values of a bytes feature share the record's memory.
 * @throws TonyError DATA_INVALID if the record is malformed.
 */
export function decodeExample(record: Uint8Array): Features {
  const features: Record<string, Feature> = emptyRecord();
  scanExample(new WireReader().reset(record), (nameFrom, nameTo, from, to) => {
    features[textOf(record, nameFrom, nameTo)] = readFeature(new WireReader().reset(record, from, to));
  });
  return features;
}

/**
 * Calls `onFeature` for each feature of a serialised Example. The arguments are the byte ranges of the feature's name and of its Feature
 * message.
 */
export function scanExample(message: WireReader, onFeature: OnEntry): void {
  while (!message.isAtEnd) {
    const tag = message.size();
    if (tag === 0x0a) {
      const outer = message.enter();
      scanMap(message, onFeature);
      message.leave(outer);
    } else {
      message.skip(tag & 7);
    }
  }
}

export function decodeSequenceExample(record: Uint8Array): SequenceExample {
  const context: Record<string, Feature> = emptyRecord();
  const featureLists: Record<string, Feature[]> = emptyRecord();
  const message = new WireReader().reset(record);
  while (!message.isAtEnd) {
    const tag = message.size();
    if (tag !== 0x0a && tag !== 0x12) {
      message.skip(tag & 7);
      continue;
    }
    const outer = message.enter();
    scanMap(message, (nameFrom, nameTo, from, to) => {
      const name = textOf(record, nameFrom, nameTo);
      const value = new WireReader().reset(record, from, to);
      if (tag === 0x0a) {
        context[name] = readFeature(value);
      } else {
        featureLists[name] = readFeatureList(value);
      }
    });
    message.leave(outer);
  }
  return { context, featureLists };
}

function scanMap(map: WireReader, onEntry: OnEntry): void {
  while (!map.isAtEnd) {
    const tag = map.size();
    if (tag !== 0x0a) {
      map.skip(tag & 7);
      continue;
    }
    const outer = map.enter();
    let [nameFrom, nameTo, from, to] = [0, 0, 0, 0];
    while (!map.isAtEnd) {
      const field = map.size();
      if (field === 0x0a) {
        const entryEnd = map.enter();
        nameFrom = map.at;
        nameTo = map.end;
        map.leave(entryEnd);
      } else if (field === 0x12) {
        const entryEnd = map.enter();
        from = map.at;
        to = map.end;
        map.leave(entryEnd);
      } else {
        map.skip(field & 7);
      }
    }
    map.leave(outer);
    onEntry(nameFrom, nameTo, from, to);
  }
}

function readFeatureList(list: WireReader): Feature[] {
  const features: Feature[] = [];
  while (!list.isAtEnd) {
    const tag = list.size();
    if (tag === 0x0a) {
      const outer = list.enter();
      features.push(readFeature(list));
      list.leave(outer);
    } else {
      list.skip(tag & 7);
    }
  }
  return features;
}

function readFeature(feature: WireReader): Feature {
  let result: Feature = { kind: 'bytes', values: [] };
  while (!feature.isAtEnd) {
    const tag = feature.size();
    if (tag !== 0x0a && tag !== 0x12 && tag !== 0x1a) {
      feature.skip(tag & 7);
      continue;
    }
    const outer = feature.enter();
    if (tag === 0x0a) {
      result = { kind: 'bytes', values: readBytesList(feature) };
    } else if (tag === 0x12) {
      result = { kind: 'float', values: readFloatList(feature) };
    } else {
      result = { kind: 'int64', values: readInt64List(feature) };
    }
    feature.leave(outer);
  }
  return result;
}

export function readBytesList(list: WireReader): Buffer[] {
  const { buffer, byteOffset } = list.bytes;
  const values: Buffer[] = [];
  while (!list.isAtEnd) {
    const tag = list.size();
    if (tag !== 0x0a) {
      list.skip(tag & 7);
      continue;
    }
    const outer = list.enter();
    values.push(Buffer.from(buffer, byteOffset + list.at, list.end - list.at));
    list.leave(outer);
  }
  return values;
}

export function readFloatList(list: WireReader): Float32Array {
  // Each number takes up four bytes.
  const most = Math.floor((list.end - list.at) / FLOAT_BYTES);
  const values = new Float32Array(most);
  const count = readFloats(list, values, 0, most);
  return count === most ? values : values.slice(0, count);
}

/**
 * Reads numbers into `target`, beginning at index `at`.
 * @returns the number of values in the list. The values beyond the first `most` are not stored.
 */
export function readFloats(list: WireReader, target: Float32Array, at: number, most: number): number {
  let count = 0;
  while (!list.isAtEnd) {
    const tag = list.size();
    const outer = tag === 0x0a ? list.enter() : null;
    if (outer === null && tag !== 0x0d) {
      list.skip(tag & 7);
      continue;
    }
    const from = outer === null ? list.take(FLOAT_BYTES) : list.at;
    const floats = outer === null ? 1 : (list.end - from) / FLOAT_BYTES;
    if (!Number.isInteger(floats)) {
      throw broken('has floats that are not 4 bytes long');
    }
    const bytes = FLOAT_BYTES * Math.min(floats, most - count);
    if (bytes > 0) {
      const place = new Uint8Array(target.buffer, target.byteOffset + FLOAT_BYTES * (at + count), bytes);
      place.set(list.bytes.subarray(from, from + bytes));
    }
    count += floats;
    if (outer !== null) {
      list.leave(outer);
    }
  }
  return count;
}

function readInt64List(list: WireReader): BigInt64Array {
  const values: bigint[] = [];
  scanInt64List(list, (low, high) => values.push((BigInt(high) << 32n) | BigInt(low)));
  return BigInt64Array.from(values);
}

/**
 * Calls `onValue` for each number. The arguments are the number's lower 32 bits as an unsigned integer and its upper 32 bits as a signed
 * integer.
 */
export function scanInt64List(list: WireReader, onValue: (low: number, high: number) => void): void {
  while (!list.isAtEnd) {
    const tag = list.size();
    if (tag === 0x0a) {
      const outer = list.enter();
      while (!list.isAtEnd) {
        const { low, high } = list.varint();
        onValue(low, high);
      }
      list.leave(outer);
    } else if (tag === 0x08) {
      const { low, high } = list.varint();
      onValue(low, high);
    } else {
      list.skip(tag & 7);
    }
  }
}

export function textOf(bytes: Uint8Array, from: number, to: number): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset + from, to - from).toString('utf8');
}

/** Creates an object without a prototype, in which `__proto__` is an ordinary name. */
function emptyRecord<T>(): Record<string, T> {
  return Object.create(null) as Record<string, T>;
}

/** A value that can be encoded as a feature. Numbers are encoded as floats. For int64, use bigints, an Int32Array or a BigInt64Array. */
export type FeatureValue =
  | string
  | number
  | bigint
  | Uint8Array
  | Float32Array
  | Float64Array
  | Int32Array
  | BigInt64Array
  | readonly string[]
  | readonly number[]
  | readonly bigint[]
  | readonly Uint8Array[]
  | Feature;

/**
 * Encodes a tf.train.Example. Strings and Uint8Arrays become bytes. Numbers become floats. Bigints, Int32Arrays and BigInt64Arrays become
 * int64. Names are sorted, so the same example always has the same encoding.
 */
export function encodeExample(features: Readonly<Record<string, FeatureValue>>): Buffer {
  return bytesField(1, encodeFeatures(features));
}

export function encodeSequenceExample(example: {
  readonly context?: Readonly<Record<string, FeatureValue>>;
  readonly featureLists: Readonly<Record<string, readonly FeatureValue[]>>;
}): Buffer {
  const lists = Object.keys(example.featureLists)
    .sort()
    .map((name) => {
      const list = (example.featureLists[name] ?? []).map((value) => bytesField(1, encodeFeature(value)));
      return bytesField(1, bytesField(1, Buffer.from(name)), bytesField(2, ...list));
    });
  const context = encodeFeatures(example.context ?? {});
  return Buffer.concat([...(context.length === 0 ? [] : [bytesField(1, context)]), bytesField(2, ...lists)]);
}

function encodeFeatures(features: Readonly<Record<string, FeatureValue>>): Buffer {
  const entries = Object.keys(features)
    .sort()
    .map((name) => bytesField(1, bytesField(1, Buffer.from(name)), bytesField(2, encodeFeature(features[name] as FeatureValue))));
  return Buffer.concat(entries);
}

function encodeFeature(value: FeatureValue): Buffer {
  const feature = featureOf(value);
  switch (feature.kind) {
    case 'bytes':
      return bytesField(1, ...feature.values.map((item) => bytesField(1, item)));
    case 'float':
      return bytesField(2, ...(feature.values.length === 0 ? [] : [bytesField(1, bytesOf(feature.values))]));
    case 'int64':
      return bytesField(3, ...(feature.values.length === 0 ? [] : [bytesField(1, packVarints(feature.values))]));
  }
}

function featureOf(value: FeatureValue): Feature {
  if (typeof value === 'object' && 'kind' in value) {
    return value;
  }
  if (value instanceof Uint8Array) {
    return { kind: 'bytes', values: [value] };
  }
  if (value instanceof Float32Array || value instanceof Float64Array) {
    return { kind: 'float', values: Float32Array.from(value) };
  }
  if (value instanceof BigInt64Array) {
    return { kind: 'int64', values: value };
  }
  if (value instanceof Int32Array) {
    return { kind: 'int64', values: BigInt64Array.from(value as unknown as Iterable<number>, BigInt) };
  }
  const list = (Array.isArray(value) ? value : [value]) as readonly unknown[];
  if (list.every((item) => typeof item === 'number')) {
    return { kind: 'float', values: Float32Array.from(list) };
  }
  if (list.every((item) => typeof item === 'bigint')) {
    return { kind: 'int64', values: BigInt64Array.from(list) };
  }
  if (list.every((item) => typeof item === 'string' || item instanceof Uint8Array)) {
    return { kind: 'bytes', values: list.map((item) => (typeof item === 'string' ? Buffer.from(item) : item)) };
  }
  throw new TonyError('DATA_INVALID', 'the values of a feature must all be bytes, all strings, all numbers or all bigints');
}

function bytesOf({ buffer, byteOffset, byteLength }: Float32Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

function packVarints(values: BigInt64Array): Buffer {
  // A negative number is encoded in ten bytes.
  const unsigned = Array.from(values, (value) => BigInt.asUintN(64, value));
  const small = unsigned.map((value) => (value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : null));
  const length = small.reduce<number>((sum, value) => sum + (value === null ? 10 : varintLength(value)), 0);
  const result = Buffer.alloc(length);
  let at = 0;
  unsigned.forEach((value, index) => {
    const number = small[index] as number | null;
    at = number === null ? writeBigVarint(result, at, value) : writeVarint(result, at, number);
  });
  return result.subarray(0, at);
}
