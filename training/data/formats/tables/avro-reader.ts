import { decodeUtf8 } from '../utf8.ts';
import type { AvroRecord, AvroType } from './avro-schema.ts';

/*
 * Decodes values in Avro's binary encoding (Apache Avro specification, "Binary Encoding").
 *
 * Work is bounded: readers and skippers are created once for each type, lengths are checked before memory is allocated, and each value
 * takes at least one byte. Values of some types (null, empty records) take no bytes, so the cursor limits their number.
 */

/** A position in the uncompressed data of a block. */
export interface AvroCursor {
  readonly bytes: Buffer;
  at: number;
  /** The number of values without bytes that may still follow. */
  emptyValues: number;
}

export type AvroReader = (cursor: AvroCursor) => unknown;

/** Limit on the records that contain each other in one value of a recursive type. */
const MAX_RECURSION = 1000;

/** Creates functions that read or skip one value of a type. They throw an Error if the data ends early or contains an impossible length. */
export class AvroReaders {
  readonly #readers = new Map<AvroType, AvroReader>();
  readonly #skippers = new Map<AvroType, AvroReader>();
  readonly #emptiness = new Map<AvroType, boolean>();
  #recursion = 0;

  /**
   * Returns a function that reads a value as value-kinds.ts describes it: a record as an array of its fields' values, a string and bytes as
   * bytes, an enum as a string, and a long as a number or, if a number does not represent it exactly, a bigint.
   * @param type contains no map and no recursive type.
   */
  reader(type: AvroType): AvroReader {
    const known = this.#readers.get(type);
    if (known !== undefined) {
      return known;
    }
    const reader = this.#newReader(type);
    this.#readers.set(type, reader);
    return reader;
  }

  #newReader(type: AvroType): AvroReader {
    switch (type.type) {
      case 'null':
        return (cursor) => {
          countEmptyValue(cursor);
          return null;
        };
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
      case 'string':
        return (cursor) => take(cursor, readLength(cursor));
      case 'fixed':
        return (cursor) => take(cursor, type.size);
      case 'enum':
        return (cursor) => entryAt(type.symbols, readLength(cursor));
      case 'union': {
        const readers = type.branches.map((branch) => this.reader(branch));
        return (cursor) => entryAt(readers, readLength(cursor))(cursor);
      }
      case 'array':
        return listReader(this.reader(type.items), this.isEmpty(type.items));
      case 'record':
        return recordReader(type.fields.map((field) => this.reader(field.type)));
      case 'map':
        throw new Error('maps can only be skipped');
    }
  }

  skipper(type: AvroType): AvroReader {
    const known = this.#skippers.get(type);
    if (known !== undefined) {
      return known;
    }
    let skipper: AvroReader | null = null;
    // A recursive type finds this function while its own skipper is being created.
    this.#skippers.set(type, (cursor) => skipper?.(cursor));
    skipper = this.#newSkipper(type);
    this.#skippers.set(type, skipper);
    return skipper;
  }

  #newSkipper(type: AvroType): AvroReader {
    switch (type.type) {
      case 'null':
        return () => null;
      case 'boolean':
        return (cursor) => take(cursor, 1);
      case 'int':
      case 'long':
      case 'enum':
        return readLong;
      case 'float':
        return (cursor) => take(cursor, 4);
      case 'double':
        return (cursor) => take(cursor, 8);
      case 'bytes':
      case 'string':
        return (cursor) => take(cursor, readLength(cursor));
      case 'fixed':
        return (cursor) => take(cursor, type.size);
      case 'union': {
        const skippers = type.branches.map((branch) => this.skipper(branch));
        return (cursor) => entryAt(skippers, readLength(cursor))(cursor);
      }
      case 'array':
        return listSkipper(this.skipper(type.items), this.isEmpty(type.items));
      case 'map': {
        const skipValue = this.skipper(type.items);
        const skipEntry: AvroReader = (cursor) => {
          take(cursor, readLength(cursor));
          skipValue(cursor);
        };
        return listSkipper(skipEntry, false);
      }
      case 'record':
        return this.#recordSkipper(type);
    }
  }

  #recordSkipper({ fields }: AvroRecord): AvroReader {
    // Without this filter, a record of empty records could take exponential time.
    const skippers = fields.filter((field) => !this.isEmpty(field.type)).map((field) => this.skipper(field.type));
    return (cursor) => {
      this.#recursion++;
      try {
        if (this.#recursion > MAX_RECURSION) {
          throw new Error(`a value contains more than ${MAX_RECURSION} records within each other`);
        }
        for (const skip of skippers) {
          skip(cursor);
        }
      } finally {
        this.#recursion--;
      }
    };
  }

  /** Returns true if values of this type take no bytes. */
  isEmpty(type: AvroType): boolean {
    const known = this.#emptiness.get(type);
    if (known !== undefined) {
      return known;
    }
    // A recursive type needs bytes that end the recursion.
    this.#emptiness.set(type, false);
    const isEmpty =
      type.type === 'null' ||
      (type.type === 'fixed' && type.size === 0) ||
      (type.type === 'record' && type.fields.every((field) => this.isEmpty(field.type)));
    this.#emptiness.set(type, isEmpty);
    return isEmpty;
  }
}

/** @throws Error if the block contains more values without bytes than its size justifies. */
export function countEmptyValue(cursor: AvroCursor): void {
  cursor.emptyValues--;
  if (cursor.emptyValues < 0) {
    throw new Error('the data declares too many values that take no bytes');
  }
}

function recordReader(readers: readonly AvroReader[]): AvroReader {
  if (readers.length === 0) {
    return (cursor) => {
      countEmptyValue(cursor);
      return [];
    };
  }
  return (cursor) => {
    const values = new Array<unknown>(readers.length);
    for (let index = 0; index < readers.length; index++) {
      values[index] = (readers[index] as AvroReader)(cursor);
    }
    return values;
  };
}

/**
 * Avro encodes a list as blocks of items, and ends it with an empty block. If a block's count is negative, the block's length in bytes
 * follows. Returns the next count; 0 ends the list.
 */
function readCount(cursor: AvroCursor, isEmpty: boolean): number {
  let count = readSafeLong(cursor);
  if (count < 0) {
    count = -count;
    readLength(cursor);
  }
  if (!isEmpty && count > cursor.bytes.length - cursor.at) {
    throw new Error(`a list declares ${count} items, but only ${cursor.bytes.length - cursor.at} bytes follow`);
  }
  return count;
}

function listReader(readItem: AvroReader, isEmpty: boolean): (cursor: AvroCursor) => unknown[] {
  return (cursor) => {
    const items: unknown[] = [];
    for (let count = readCount(cursor, isEmpty); count > 0; count = readCount(cursor, isEmpty)) {
      if (isEmpty && count > cursor.emptyValues) {
        throw new Error(`a list declares ${count} items that take no bytes`);
      }
      for (let index = 0; index < count; index++) {
        items.push(readItem(cursor));
      }
    }
    return items;
  };
}

function listSkipper(skipItem: AvroReader, isEmpty: boolean): AvroReader {
  return (cursor) => {
    for (let count = readCount(cursor, isEmpty); count > 0; count = readCount(cursor, isEmpty)) {
      for (let index = 0; index < count && !isEmpty; index++) {
        skipItem(cursor);
      }
    }
  };
}

/** Reads the metadata of a file's header: a map from strings to bytes. */
export function readMetadata(cursor: AvroCursor): Map<string, Buffer> {
  const readEntries = listReader((at) => [decodeUtf8(take(at, readLength(at))), take(at, readLength(at))], false);
  return new Map(readEntries(cursor) as [string, Buffer][]);
}

/** Reads an integer. Returns a bigint if a number does not represent it exactly. */
export function readLong(cursor: AvroCursor): number | bigint {
  let [low, scale] = [0, 1];
  for (let read = 0; read < 4; read++) {
    const byte = byteAt(cursor);
    low += (byte & 0x7f) * scale;
    scale *= 128;
    if (byte < 0x80) {
      // Zigzag encoding maps 0, -1, 1, -2 and 2 to 0, 1, 2, 3 and 4.
      return low % 2 === 0 ? low / 2 : -(low + 1) / 2;
    }
  }
  return readLargeLong(cursor, BigInt(low));
}

function readLargeLong(cursor: AvroCursor, low: bigint): number | bigint {
  let value = low;
  for (let shift = 28n; shift < 70n; shift += 7n) {
    const byte = byteAt(cursor);
    value |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) {
      const integer = BigInt.asIntN(64, (value >> 1n) ^ -(value & 1n));
      const number = Number(integer);
      return Number.isSafeInteger(number) ? number : integer;
    }
  }
  throw new Error('an integer has more than 64 bits');
}

export function readSafeLong(cursor: AvroCursor): number {
  const value = readLong(cursor);
  if (typeof value === 'bigint') {
    throw new Error(`the data declares a length of ${value}`);
  }
  return value;
}

function readLength(cursor: AvroCursor): number {
  const length = readSafeLong(cursor);
  if (length < 0) {
    throw new Error(`the data declares a length of ${length}`);
  }
  return length;
}

function byteAt(cursor: AvroCursor): number {
  const byte = cursor.bytes[cursor.at++];
  if (byte === undefined) {
    throw endsEarly();
  }
  return byte;
}

function take(cursor: AvroCursor, length: number): Buffer {
  const { bytes, at } = cursor;
  if (at + length > bytes.length) {
    throw endsEarly();
  }
  cursor.at += length;
  return bytes.subarray(at, at + length);
}

function endsEarly(): Error {
  return new Error('the data ends within a value');
}

function entryAt<T>(entries: readonly T[], index: number): T {
  const entry = entries[index];
  if (entry === undefined) {
    throw new Error(`a value selects entry ${index}, but only ${entries.length} entries exist`);
  }
  return entry;
}
