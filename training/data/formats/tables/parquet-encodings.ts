/*
 * Parquet's encodings of sequences (Encodings.md of Apache Parquet):
 *
 *   RLE/bit-packing   runs, each a varint header: (groups << 1 | 1) and groups of 8 bit-packed values, or (length << 1) and one value
 *   delta             block size, miniblocks per block, number of values, first value (zigzag); blocks of a minimum (zigzag), a bit width
 *                     (a byte) per miniblock, and the bit-packed miniblocks
 */

/** A position in a page. */
export interface PageCursor {
  readonly bytes: Uint8Array;
  at: number;
}

const MAX_BLOCK = 2 ** 20;

/** Returns the number of bits that levels up to `max` take. */
export function levelWidth(max: number): number {
  return 32 - Math.clz32(max);
}

interface RunVisitor {
  repeated(value: number, from: number, count: number): void;
  /** Visits bit-packed values, the first of which is at the cursor. Must not move the cursor. */
  packed(from: number, count: number): void;
}

/**
 * Moves behind a sequence of runs with `count` values.
 * @throws Error if a run is longer than the sequence.
 */
function visitRuns(cursor: PageCursor, width: number, count: number, visitor: RunVisitor): void {
  let seen = 0;
  while (seen < count) {
    const header = varint(cursor);
    if (header % 2 === 1) {
      const values = 8 * Math.floor(header / 2);
      visitor.packed(seen, Math.min(values, count - seen));
      move(cursor, (values / 8) * width);
      seen += values;
    } else {
      const run = header / 2;
      if (run > count - seen) {
        throw new Error(`a run of ${run} values exceeds the ${count} values of its page`);
      }
      let value = 0;
      for (let index = 0; index < Math.ceil(width / 8); index++) {
        value += byteOf(cursor) * 256 ** index;
      }
      visitor.repeated(value, seen, run);
      seen += run;
    }
  }
}

/** Moves behind a sequence of runs, and returns how many of the values equal `counted`, without storing them. Null counts nothing. */
export function passRuns(cursor: PageCursor, width: number, count: number, counted: number | null): number {
  let found = 0;
  visitRuns(cursor, width, count, {
    repeated: (value, _, run) => {
      found += value === counted ? run : 0;
    },
    packed: (_, values) => {
      for (let index = 0; counted !== null && index < values; index++) {
        found += bitsAt(cursor.bytes, cursor.at * 8 + index * width, width) === counted ? 1 : 0;
      }
    },
  });
  return found;
}

/** Largest width of values that lie within four bytes wherever they begin. */
const MAX_QUICK_WIDTH = 25;

/** Reads a sequence of runs that fills `values`. */
export function readRuns(cursor: PageCursor, width: number, values: Uint8Array | Uint32Array): void {
  visitRuns(cursor, width, values.length, {
    repeated: (value, from, run) => values.fill(value, from, from + run),
    packed: (from, count) => unpackBits(cursor, width, values, from, from + count),
  });
}

function unpackBits({ bytes, at: start }: PageCursor, width: number, values: Uint8Array | Uint32Array, from: number, to: number): void {
  const mask = -1 >>> (32 - width);
  let index = from;
  let at = start;
  let bit = 0;
  for (const last = width > MAX_QUICK_WIDTH ? 0 : bytes.length - 3; index < to && at < last; index++) {
    const four =
      (bytes[at] as number) | ((bytes[at + 1] as number) << 8) | ((bytes[at + 2] as number) << 16) | ((bytes[at + 3] as number) << 24);
    values[index] = (four >>> bit) & mask;
    bit += width;
    at += bit >> 3;
    bit &= 7;
  }
  for (; index < to; index++) {
    values[index] = bitsAt(bytes, start * 8 + (index - from) * width, width);
  }
}

/** Reads up to 32 bits, the least significant first. */
function bitsAt(bytes: Uint8Array, from: number, width: number): number {
  let value = 0;
  for (let read = 0; read < width; ) {
    const bit = (from + read) % 8;
    const taken = Math.min(8 - bit, width - read);
    const byte = bytes[(from + read - bit) / 8];
    if (byte === undefined) {
      throw endsEarly();
    }
    value += ((byte >> bit) & ((1 << taken) - 1)) * 2 ** read;
    read += taken;
  }
  return value;
}

/** Checks the header of a delta-encoded sequence, without moving the cursor. */
export function checkDelta({ bytes, at }: PageCursor): void {
  readDeltaHeader({ bytes, at });
}

function readDeltaHeader(cursor: PageCursor): { readonly miniblocks: number; readonly perMiniblock: number } {
  const block = varint(cursor);
  const miniblocks = varint(cursor);
  varint(cursor);
  if (block === 0 || block > MAX_BLOCK || miniblocks === 0 || block % miniblocks !== 0) {
    throw new Error(`a block has ${block} values in ${miniblocks} parts`);
  }
  return { miniblocks, perMiniblock: block / miniblocks };
}

/** Reads delta-encoded 32-bit integers, and moves behind them. */
export function readDelta(cursor: PageCursor, count: number): Int32Array {
  const { miniblocks, perMiniblock } = readDeltaHeader(cursor);
  const values = new Int32Array(count);
  let value = zigzag(cursor);
  values[0] = value;
  for (let index = 1; index < count; ) {
    const least = zigzag(cursor);
    const widths = cursor.at;
    move(cursor, miniblocks);
    for (let part = 0; part < miniblocks && index < count; part++) {
      const width = cursor.bytes[widths + part] as number;
      if (width > 32) {
        throw new Error(`a difference has ${width} bits`);
      }
      for (let item = 0; item < perMiniblock && index < count; item++) {
        value = (value + least + bitsAt(cursor.bytes, cursor.at * 8 + item * width, width)) | 0;
        values[index++] = value;
      }
      move(cursor, (perMiniblock * width) / 8);
    }
  }
  return values;
}

export function readInt32(cursor: PageCursor): number {
  const low = byteOf(cursor) + byteOf(cursor) * 256;
  return low + byteOf(cursor) * 65_536 + byteOf(cursor) * 2 ** 24;
}

function zigzag(cursor: PageCursor): number {
  const value = varint(cursor);
  return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
}

/** Reads an integer of up to 33 bits, which a difference of 32-bit integers can need. */
function varint(cursor: PageCursor): number {
  let value = 0;
  for (let index = 0; index < 5; index++) {
    const byte = byteOf(cursor);
    value += (byte & 0x7f) * 128 ** index;
    if (byte < 0x80) {
      return value;
    }
  }
  throw new Error('an integer is too long');
}

export function byteOf(cursor: PageCursor): number {
  const byte = cursor.bytes[cursor.at++];
  if (byte === undefined) {
    throw endsEarly();
  }
  return byte;
}

/** Moves the cursor, possibly behind the end, because the last group of bit-packed values may lack its padding. */
function move(cursor: PageCursor, bytes: number): void {
  cursor.at += Math.ceil(bytes);
}

function endsEarly(): Error {
  return new Error('a page ends within its values');
}
