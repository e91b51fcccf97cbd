import { Buffer } from 'node:buffer';
import protobuf from 'protobufjs/light.js';
import descriptor from '../../protos/hadoop.json' with { type: 'json' };
import type { HadoopMessages } from '../../protos/hadoop-messages.ts';

let root: protobuf.Root | undefined;

/** Loads the message descriptors on first use, because most processes never use them. */
function typeOf(name: string): protobuf.Type {
  root ??= protobuf.Root.fromJSON(descriptor as protobuf.INamespace);
  return root.lookupType(`hadoop.${name}`);
}

/**
 * Decodes a message. Fields that are not set are missing from the result, but lists are always present. 64-bit integers become decimal
 * strings, and enum values become names. Byte fields share memory with `bytes`, so callers must copy them to keep them. Throws if the bytes
 * are not a message of this type.
 */
export function decodeMessage<Name extends keyof HadoopMessages>(name: Name, bytes: Uint8Array): HadoopMessages[Name] {
  const type = typeOf(name);
  return type.toObject(type.decode(bytes), { longs: String, enums: String, arrays: true }) as HadoopMessages[Name];
}

/**
 * Encodes a message with its length as a varint prefix. Fields are written even if they have their default values. Fields that are
 * undefined are left out.
 */
export function encodeDelimited<Name extends keyof HadoopMessages>(name: Name, value: HadoopMessages[Name]): Buffer {
  const type = typeOf(name);
  return Buffer.from(type.encodeDelimited(type.fromObject(value)).finish());
}

/**
 * Splits off the length-delimited message at `offset`. Returns the message, which shares memory with `bytes`, and the offset after it.
 * Throws a RangeError if the bytes end early.
 */
export function splitDelimited(bytes: Buffer, offset: number): { message: Buffer; next: number } {
  const reader = protobuf.Reader.create(bytes);
  reader.pos = offset;
  const { length } = reader.bytes();
  return { message: bytes.subarray(reader.pos - length, reader.pos), next: reader.pos };
}
