import { type Field, fieldsOf } from '../../training/encoding/protobuf-reader.ts';

/*
 * The fields that curves need:
 *
 *   Event (tensorflow/core/util/event.proto): 1 wall_time double, 2 step int64, 3 file_version string, 5 summary,
 *     7 session_log { 1 status: START = 1 }
 *   Summary (framework/summary.proto): 1 value { 1 tag, 2 simple_value float, 8 tensor, 9 metadata { 1 plugin_data { 1 plugin_name } } }
 *   Tensor (framework/tensor.proto): 1 dtype, 2 shape { 2 dim }, 4 tensor_content, 5 float_val, 6 double_val, 7 int_val, 10 int64_val,
 *     11 bool_val, 13 half_val
 *
 * TensorFlow 2 writes a scalar as a tensor without dimensions whose metadata names the plugin `scalars`.
 */

export interface ScalarEvent {
  /** Seconds since the epoch. */
  readonly wallTime: number;
  readonly step: number;
  /** Set in a file's first event, for example `brain.Event:2`; otherwise null. */
  readonly fileVersion: string | null;
  /** Marks the start of a run. The values that earlier runs have written for this step and later steps become invalid. */
  readonly isStart: boolean;
  readonly values: readonly EventValue[];
}

export interface EventValue {
  readonly tag: string;
  /** null if the value is not a number. */
  readonly number: number | null;
  /**
   * A `simple` value is always a scalar. A `tensor` value is a scalar if its tag belongs to the `scalars` plugin. Only the first value of a
   * tag names the plugin.
   */
  readonly form: 'simple' | 'tensor' | 'other';
  readonly plugin: string | null;
}

const DOUBLE = 1;
const VARINT = 0;
const BYTES = 2;
const FLOAT = 5;
/** Tensor types, framework/types.proto. */
const DT = { float: 1, double: 2, int32: 3, int64: 9, bool: 10, bfloat16: 14, half: 19 } as const;

/** @throws TonyError DATA_INVALID if the bytes are not an event. */
export function decodeEvent(data: Buffer): ScalarEvent {
  let wallTime = 0;
  let step = 0;
  let fileVersion: string | null = null;
  let isStart = false;
  const values: EventValue[] = [];
  for (const field of fieldsOf(data)) {
    if (field.number === 1 && field.type === DOUBLE) {
      wallTime = field.bytes.readDoubleLE();
    } else if (field.number === 2 && field.type === VARINT) {
      step = field.varint;
    } else if (field.number === 3 && field.type === BYTES) {
      fileVersion = field.bytes.toString('utf8');
    } else if (field.number === 5 && field.type === BYTES) {
      for (const value of fieldsOf(field.bytes)) {
        if (value.number === 1 && value.type === BYTES) {
          values.push(decodeValue(value.bytes));
        }
      }
    } else if (field.number === 7 && field.type === BYTES) {
      isStart = [...fieldsOf(field.bytes)].some(({ number, type, varint }) => number === 1 && type === VARINT && varint === 1);
    }
  }
  return { wallTime, step, fileVersion, isStart, values };
}

function decodeValue(data: Buffer): EventValue {
  let tag = '';
  let number: number | null = null;
  let form: EventValue['form'] = 'other';
  let plugin: string | null = null;
  for (const field of fieldsOf(data)) {
    if (field.number === 1 && field.type === BYTES) {
      tag = field.bytes.toString('utf8');
    } else if (field.number === 2 && field.type === FLOAT) {
      form = 'simple';
      number = shortest(field.bytes.readFloatLE());
    } else if (field.number === 8 && field.type === BYTES) {
      form = 'tensor';
      number = decodeTensor(field.bytes);
    } else if (field.number === 9 && field.type === BYTES) {
      plugin = pluginOf(field.bytes);
    }
  }
  return { tag, number, form, plugin };
}

function pluginOf(metadata: Buffer): string | null {
  for (const field of fieldsOf(metadata)) {
    if (field.number !== 1 || field.type !== BYTES) {
      continue;
    }
    for (const part of fieldsOf(field.bytes)) {
      if (part.number === 1 && part.type === BYTES) {
        return part.bytes.toString('utf8');
      }
    }
  }
  return null;
}

/** Returns the number in a tensor without dimensions, or null for any other tensor. */
function decodeTensor(data: Buffer): number | null {
  let type = 0;
  let content: Buffer | null = null;
  let listed: Field | null = null;
  for (const field of fieldsOf(data)) {
    if (field.number === 1 && field.type === VARINT) {
      type = field.varint;
    } else if (field.number === 2 && field.type === BYTES) {
      if ([...fieldsOf(field.bytes)].some((part) => part.number === 2)) {
        return null;
      }
    } else if (field.number === 4) {
      content = field.bytes;
    } else if (LISTS.has(field.number)) {
      listed ??= field;
    }
  }
  if (content !== null && content.length > 0) {
    return fromContent(type, content);
  }
  // Writers may omit a tensor's content if its value is 0.
  return listed === null ? (KNOWN.has(type) ? 0 : null) : fromList(type, listed);
}

const LISTS: ReadonlySet<number> = new Set([5, 6, 7, 10, 11, 13]);
const KNOWN: ReadonlySet<number> = new Set(Object.values(DT));

function fromContent(type: number, content: Buffer): number | null {
  const read = (size: number, value: () => number): number | null => (content.length === size ? value() : null);
  switch (type) {
    case DT.float:
      return read(4, () => shortest(content.readFloatLE()));
    case DT.double:
      return read(8, () => content.readDoubleLE());
    case DT.int32:
      return read(4, () => content.readInt32LE());
    case DT.int64:
      return read(8, () => Number(content.readBigInt64LE()));
    case DT.bool:
      return read(1, () => content.readUInt8());
    case DT.half:
      return read(2, () => halfOf(content.readUInt16LE()));
    case DT.bfloat16:
      return read(2, () => bfloatOf(content.readUInt16LE()));
    default:
      return null;
  }
}

/** Decodes a list that contains one number, packed (as bytes) or unpacked. */
function fromList(type: number, field: Field): number | null {
  const { bytes } = field;
  if (type === DT.float) {
    return bytes.length === 4 ? shortest(bytes.readFloatLE()) : null;
  }
  if (type === DT.double) {
    return bytes.length === 8 ? bytes.readDoubleLE() : null;
  }
  const number = field.type === VARINT ? field.varint : singleVarint(bytes);
  if (number === null) {
    return null;
  }
  switch (type) {
    case DT.int32:
      return number | 0;
    case DT.int64:
      return number;
    case DT.bool:
      return number === 0 ? 0 : 1;
    case DT.half:
      return halfOf(number & 0xffff);
    case DT.bfloat16:
      return bfloatOf(number & 0xffff);
    default:
      return null;
  }
}

function singleVarint(bytes: Buffer): number | null {
  // Prepends a field tag, because the decoder reads only fields.
  const fields = [...fieldsOf(Buffer.concat([Buffer.of(0x08), bytes]))];
  return fields.length === 1 ? (fields[0]?.varint ?? null) : null;
}

/** Rounds a 32-bit float to the fewest digits that identify it: 0.1 instead of 0.10000000149011612. */
function shortest(float: number): number {
  for (const digits of [7, 8]) {
    const candidate = Number(float.toPrecision(digits));
    if (Math.fround(candidate) === float) {
      return candidate;
    }
  }
  return float;
}

/** Decodes an IEEE 754 binary16. */
function halfOf(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0x1f) {
    return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  }
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15));
}

/** Decodes the upper half of an IEEE 754 binary32. */
function bfloatOf(bits: number): number {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt16LE(bits, 2);
  return bytes.readFloatLE();
}
