import { Buffer } from 'node:buffer';
import protobuf from 'protobufjs/light.js';
import descriptor from '../../protos/hadoop.json' with { type: 'json' };

let root: protobuf.Root | undefined;

/** Loads the message descriptors on first use, because most processes never use them. */
function typeOf(name: string): protobuf.Type {
  root ??= protobuf.Root.fromJSON(descriptor as protobuf.INamespace);
  return root.lookupType(`hadoop.${name}`);
}

/**
 * Encodes a message. Field names are the same as in protos/hadoop. 64-bit integers can be numbers or decimal strings. Fields are written
 * even if they have their default values.
 */
export function encodeMessage(name: string, value: object): Buffer {
  const type = typeOf(name);
  return Buffer.from(type.encode(type.fromObject(value)).finish());
}

/**
 * Decodes a message. Fields that are not set are missing from the result, but lists are always present. 64-bit integers become decimal
 * strings, and enum values become names. Byte fields share memory with `bytes`, so callers must copy them to keep them. Throws if the bytes
 * are not a message of this type.
 */
export function decodeMessage<T>(name: string, bytes: Uint8Array): T {
  const type = typeOf(name);
  return type.toObject(type.decode(bytes), { longs: String, enums: String, arrays: true }) as T;
}

/** Encodes a message with its length as a varint prefix. */
export function encodeDelimited(name: string, value: object): Buffer {
  const message = encodeMessage(name, value);
  return Buffer.concat([varint(message.length), message]);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 0x7f; rest >>>= 7) {
    bytes.push((rest & 0x7f) | 0x80);
  }
  bytes.push(rest);
  return Buffer.from(bytes);
}

/**
 * Splits off the length-delimited message at `offset`. Returns the message, which shares memory with `bytes`, and the offset after it.
 * Throws a RangeError if the bytes end early.
 */
export function splitDelimited(bytes: Buffer, offset: number): { message: Buffer; next: number } {
  let length = 0;
  let at = offset;
  for (let shift = 0; ; shift += 7) {
    const byte = bytes[at++];
    if (byte === undefined || shift > 28) {
      throw new RangeError('a message has no valid length prefix');
    }
    length += (byte & 0x7f) * 2 ** shift;
    if (byte < 0x80) {
      break;
    }
  }
  if (length > bytes.length - at) {
    throw new RangeError(`a message declares ${length} bytes, but only ${bytes.length - at} bytes are left`);
  }
  return { message: bytes.subarray(at, at + length), next: at + length };
}
