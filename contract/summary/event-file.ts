import { bytes, double, integer, text, varintLength, WIRE, writeVarint } from '../encoding/protobuf.ts';
import { FOOTER_BYTES, HEADER_BYTES, sealRecord } from '../encoding/tfrecord-frame.ts';

/*
 * Encodes TensorBoard's event files. An event file consists of TFRecords (tfrecord-frame.ts). Each record holds a tensorflow.Event
 * (tensorflow/core/util/event.proto) with these fields:
 *
 *   1 wall_time double, 2 step int64, 3 file_version string (only in a file's first event), 5 summary { 1 value, repeated },
 *   7 session_log { 1 status enum: START = 1 }
 *
 * A value (tensorflow/core/framework/summary.proto) has the field 1 tag string and either 2 simple_value float or these fields:
 *
 *   8 tensor { 1 dtype enum, 2 tensor_shape { 2 dim { 1 size int64 }, repeated }, 4 tensor_content bytes, 8 string_val bytes, repeated },
 *   9 metadata { 1 plugin_data { 1 plugin_name string, 2 content bytes } }: the TensorBoard plugin that shows the tag. TensorBoard uses
 *     only the first metadata of a tag.
 */

export interface ScalarValue {
  readonly tag: string;
  readonly value: number;
}

export interface TensorValue {
  readonly tag: string;
  readonly plugin: string;
  /** The tag's metadata, in the plugin's own format. */
  readonly content: Uint8Array;
  /** The tensor's fields, as `doubleTensor`, `stringTensor` or `emptyTensor` encode them. */
  readonly tensor: Buffer;
}

/** The time in seconds since the epoch. */
type WallTime = number;

const DT_FLOAT = 1;
const DT_DOUBLE = 2;
const DT_STRING = 7;

/** Encodes the record with which every file begins. */
export function encodeFileVersion(wallTime: WallTime): Buffer {
  return frame(double(1, wallTime), text(3, 'brain.Event:2'));
}

/**
 * Encodes a record that makes TensorBoard discard the values written by an interrupted process for this step and later steps. The first
 * such record of a run discards nothing, because TensorBoard interprets it as the start of the run.
 */
export function encodeRestart(wallTime: WallTime, step: number): Buffer {
  return frame(double(1, wallTime), integer(2, step), bytes(7, integer(1, 1)));
}

/** Encodes scalars directly into one buffer. Programs write scalars in every step, and encoding with nested buffers would be slower. */
export function encodeScalars(wallTime: WallTime, step: number, scalars: readonly ScalarValue[]): Buffer {
  const tags = scalars.map(({ tag }) => Buffer.byteLength(tag));
  const values = tags.map((length) => 1 + varintLength(length) + length + 5);
  const summary = values.reduce((sum, length) => sum + 1 + varintLength(length) + length, 0);
  const event = 9 + (step === 0 ? 0 : 1 + varintLength(step)) + 1 + varintLength(summary) + summary;
  const record = Buffer.allocUnsafe(HEADER_BYTES + event + FOOTER_BYTES);
  record[HEADER_BYTES] = (1 << 3) | WIRE.eightBytes;
  let at = record.writeDoubleLE(wallTime, HEADER_BYTES + 1);
  if (step !== 0) {
    record[at++] = (2 << 3) | WIRE.varint;
    at = writeVarint(record, at, step);
  }
  record[at++] = (5 << 3) | WIRE.bytes;
  at = writeVarint(record, at, summary);
  for (const [index, { tag, value }] of scalars.entries()) {
    record[at++] = (1 << 3) | WIRE.bytes;
    at = writeVarint(record, at, values[index] as number);
    record[at++] = (1 << 3) | WIRE.bytes;
    at = writeVarint(record, at, tags[index] as number);
    at += record.write(tag, at);
    record[at++] = (2 << 3) | WIRE.fourBytes;
    at = record.writeFloatLE(value, at);
  }
  return sealRecord(record);
}

export function encodeTensorValue(wallTime: WallTime, step: number, value: TensorValue): Buffer {
  const plugin = bytes(1, text(1, value.plugin), value.content.length === 0 ? value.content : bytes(2, value.content));
  const summary = bytes(1, text(1, value.tag), bytes(8, value.tensor), bytes(9, plugin));
  return frame(double(1, wallTime), integer(2, step), bytes(5, summary));
}

/**
 * Encodes a tensor of doubles.
 * @param values the numbers in row-major order.
 */
export function doubleTensor(shape: readonly number[], values: Float64Array): Buffer {
  return Buffer.concat([integer(1, DT_DOUBLE), shapeOf(shape), bytes(4, littleEndian(values))]);
}

export function stringTensor(shape: readonly number[], values: readonly Uint8Array[]): Buffer {
  return Buffer.concat([integer(1, DT_STRING), shapeOf(shape), ...values.map((value) => bytes(8, value))]);
}

/** Encodes an empty tensor, for values that consist only of metadata. */
export function emptyTensor(): Buffer {
  return Buffer.concat([integer(1, DT_FLOAT), shapeOf([0])]);
}

function shapeOf(shape: readonly number[]): Buffer {
  return bytes(2, ...shape.map((size) => bytes(2, integer(1, size))));
}

function littleEndian(values: Float64Array): Buffer {
  const buffer = Buffer.allocUnsafe(values.length * 8);
  for (const [index, value] of values.entries()) {
    buffer.writeDoubleLE(value, index * 8);
  }
  return buffer;
}

function frame(...event: readonly Buffer[]): Buffer {
  return sealRecord(Buffer.concat([Buffer.alloc(HEADER_BYTES), ...event, Buffer.alloc(FOOTER_BYTES)]));
}
