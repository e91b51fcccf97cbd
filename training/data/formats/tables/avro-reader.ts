import type { Type, types } from 'avsc';

/*
 * Decodes values in Avro's binary encoding (Apache Avro specification, "Binary Encoding"). The package avsc parses schemas; its own decoder
 * does not check the lengths in damaged data before it allocates memory for them.
 */

/** A position in the uncompressed data of a block. */
export interface AvroCursor {
  readonly bytes: Buffer;
  at: number;
}

export type AvroReader = (cursor: AvroCursor) => unknown;

/**
 * Returns a function that decodes one value of this type. The function throws an Error if the data ends early or contains an impossible
 * length.
 * @throws Error if the type is recursive or not supported.
 */
export function readerOf(type: Type, outer: readonly Type[] = []): AvroReader {
  const inner = [...outer, type];
  if (outer.includes(type)) {
    throw new Error('recursive types are not supported');
  }
  switch (type.typeName) {
    case 'null':
      return () => null;
    case 'boolean':
      return (cursor) => take(cursor, 1)[0] !== 0;
    case 'int':
    case 'long':
      return readLong;
    case 'float':
      return (cursor) => take(cursor, 4).readFloatLE();
    case 'double':
      return (cursor) => take(cursor, 8).readDoubleLE();
    case 'bytes':
      return (cursor) => take(cursor, readLong(cursor));
    case 'string':
      return (cursor) => take(cursor, readLong(cursor)).toString('utf8');
    case 'fixed': {
      const { size } = type as types.FixedType;
      return (cursor) => take(cursor, size);
    }
    case 'enum': {
      const { symbols } = type as types.EnumType;
      return (cursor) => entryAt(symbols, readLong(cursor));
    }
    case 'union:unwrapped':
    case 'union:wrapped': {
      const readers = (type as types.UnwrappedUnionType).types.map((each) => readerOf(each, inner));
      return (cursor) => entryAt(readers, readLong(cursor))(cursor);
    }
    case 'array':
      return listReader(readerOf((type as types.ArrayType).itemsType, inner));
    case 'map': {
      const readValue = readerOf((type as types.MapType).valuesType, inner);
      const readEntries = listReader((cursor) => [take(cursor, readLong(cursor)).toString('utf8'), readValue(cursor)]);
      return (cursor) => new Map(readEntries(cursor) as [string, unknown][]);
    }
    case 'record': {
      const fields = (type as types.RecordType).fields.map((field) => [field.name, readerOf(field.type, inner)] as const);
      return (cursor) => Object.fromEntries(fields.map(([name, read]) => [name, read(cursor)]));
    }
    default:
      throw new Error(`the type ${type.typeName} is not supported`);
  }
}

/**
 * Returns a function that decodes a list. Avro encodes a list as blocks of items, and ends it with an empty block. If a block's count is
 * negative, the block's length in bytes follows.
 */
function listReader(readItem: AvroReader): (cursor: AvroCursor) => unknown[] {
  return (cursor) => {
    const items: unknown[] = [];
    for (;;) {
      let count = readLong(cursor);
      if (count === 0) {
        return items;
      }
      if (count < 0) {
        count = -count;
        readLong(cursor);
      }
      if (count > cursor.bytes.length - cursor.at) {
        throw new Error(`a list declares ${count} items, but only ${cursor.bytes.length - cursor.at} bytes follow`);
      }
      for (let index = 0; index < count; index++) {
        items.push(readItem(cursor));
      }
    }
  };
}

/** @throws Error if a JavaScript number cannot represent the integer exactly. */
export function readLong(cursor: AvroCursor): number {
  let [low, scale] = [0, 1];
  for (let read = 0; read < 4; read++) {
    const byte = take(cursor, 1)[0] as number;
    low += (byte & 0x7f) * scale;
    scale *= 128;
    if (byte < 0x80) {
      // Zigzag encoding maps 0, -1, 1, -2 and 2 to 0, 1, 2, 3 and 4.
      return low % 2 === 0 ? low / 2 : -(low + 1) / 2;
    }
  }
  return readLargeLong(cursor, BigInt(low));
}

function readLargeLong(cursor: AvroCursor, low: bigint): number {
  let value = low;
  for (let shift = 28n; shift < 70n; shift += 7n) {
    const byte = take(cursor, 1)[0] as number;
    value |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) {
      const number = (value >> 1n) ^ -(value & 1n);
      if (!Number.isSafeInteger(Number(number))) {
        throw new Error(`the value ${number} is outside the range in which a number represents every integer exactly`);
      }
      return Number(number);
    }
  }
  throw new Error('an integer has more than 64 bits');
}

function take(cursor: AvroCursor, length: number): Buffer {
  const { bytes, at } = cursor;
  if (length < 0 || at + length > bytes.length) {
    throw new Error('the data ends within a value');
  }
  cursor.at += length;
  return bytes.subarray(at, at + length);
}

function entryAt<T>(entries: readonly T[], index: number): T {
  const entry = entries[index];
  if (entry === undefined) {
    throw new Error(`a value selects entry ${index}, but only ${entries.length} entries exist`);
  }
  return entry;
}
