/**
 * Encodes the part of the protobuf wire format that event files need (protobuf.dev/programming-guides/encoding). A message is a sequence of
 * fields. A field begins with a varint that contains its number and wire type. The value follows. As in proto3, fields with default values
 * (0, empty text) are omitted.
 *
 *   wire type 0: varint | 1: 8 bytes | 2: length as a varint, then that many bytes | 5: 4 bytes, little-endian
 */
export const WIRE = { varint: 0, eightBytes: 1, bytes: 2, fourBytes: 5 } as const;

const NOTHING = Buffer.alloc(0);

export function double(field: number, value: number): Buffer {
  // The default value is 0. -0 must be encoded.
  if (Object.is(value, 0)) {
    return NOTHING;
  }
  const bytes = Buffer.allocUnsafe(9);
  bytes[0] = (field << 3) | WIRE.eightBytes;
  bytes.writeDoubleLE(value, 1);
  return bytes;
}

/** @param value a non-negative integer. */
export function integer(field: number, value: number): Buffer {
  return value === 0 ? NOTHING : Buffer.concat([Buffer.of((field << 3) | WIRE.varint), varint(value)]);
}

/** Encodes a nested message or bytes. The parts are concatenated. */
export function bytes(field: number, ...parts: readonly Uint8Array[]): Buffer {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  return Buffer.concat([Buffer.of((field << 3) | WIRE.bytes), varint(length), ...parts]);
}

export function text(field: number, value: string): Buffer {
  return value === '' ? NOTHING : bytes(field, Buffer.from(value));
}

export function varint(value: number): Buffer {
  const buffer = Buffer.allocUnsafe(varintLength(value));
  writeVarint(buffer, 0, value);
  return buffer;
}

/** @returns the position after the varint. */
export function writeVarint(buffer: Buffer, at: number, value: number): number {
  let rest = value;
  let position = at;
  while (rest >= 0x80) {
    buffer[position++] = (rest % 0x80) | 0x80;
    rest = Math.floor(rest / 0x80);
  }
  buffer[position++] = rest;
  return position;
}

/** @returns the position after the varint. */
export function writeBigVarint(buffer: Buffer, at: number, value: bigint): number {
  let rest = value;
  let position = at;
  for (; rest >= 0x80n; rest >>= 7n) {
    buffer[position++] = Number(rest & 0x7fn) | 0x80;
  }
  buffer[position++] = Number(rest);
  return position;
}

export function varintLength(value: number): number {
  let length = 1;
  for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 0x80)) {
    length++;
  }
  return length;
}
