import { maskedCrc32c } from './crc32c.ts';

/**
 * TensorBoard's event files: TFRecord frames (tensorflow/core/lib/io/record_writer.h), little-endian,
 *
 *   | length u64 | masked crc32c of length u32 | length bytes of a tensorflow.Event | masked crc32c of them u32 |
 *
 * and of tensorflow.Event (tensorflow/core/util/event.proto) these fields:
 *
 *   1 wall_time double, 2 step int64, 3 file_version string (only in a file's first event), 5 summary { 1 value { 1 tag, 2 simple_value float } },
 *   7 session_log { 1 status enum: START = 1 }
 */
export interface Scalar {
  readonly tag: string;
  readonly value: number;
}

/** Seconds since the epoch. */
type WallTime = number;

/** The first record of every file. */
export function encodeFileVersion(wallTime: WallTime): Buffer {
  return frame(concat(double(1, wallTime), bytesField(3, Buffer.from('brain.Event:2'))));
}

/** Says that what an earlier, interrupted run wrote for this and later steps is void. */
export function encodeRestart(wallTime: WallTime, step: number): Buffer {
  return frame(concat(double(1, wallTime), varintField(2, step), bytesField(7, varintField(1, 1))));
}

export function encodeScalars(wallTime: WallTime, step: number, scalars: readonly Scalar[]): Buffer {
  const values = scalars.map(({ tag, value }) => bytesField(1, concat(bytesField(1, Buffer.from(tag)), float(2, value))));
  return frame(concat(double(1, wallTime), varintField(2, step), bytesField(5, concat(...values))));
}

function frame(data: Buffer): Buffer {
  const record = Buffer.alloc(12 + data.length + 4);
  record.writeBigUInt64LE(BigInt(data.length), 0);
  record.writeUInt32LE(maskedCrc32c(record.subarray(0, 8)), 8);
  record.set(data, 12);
  record.writeUInt32LE(maskedCrc32c(data), 12 + data.length);
  return record;
}

function double(field: number, value: number): Buffer {
  const bytes = Buffer.alloc(9);
  bytes[0] = (field << 3) | 1;
  bytes.writeDoubleLE(value, 1);
  return bytes;
}

function float(field: number, value: number): Buffer {
  const bytes = Buffer.alloc(5);
  bytes[0] = (field << 3) | 5;
  bytes.writeFloatLE(value, 1);
  return bytes;
}

function varintField(field: number, value: number): Buffer {
  return concat(Buffer.of(field << 3), varint(value));
}

function bytesField(field: number, value: Buffer): Buffer {
  return concat(Buffer.of((field << 3) | 2), varint(value.length), value);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  while (rest >= 0x80) {
    bytes.push((rest % 0x80) | 0x80);
    rest = Math.floor(rest / 0x80);
  }
  bytes.push(rest);
  return Buffer.from(bytes);
}

function concat(...parts: readonly Buffer[]): Buffer {
  return Buffer.concat(parts);
}
