import { ThriftCursor } from './parquet-thrift.ts';

/*
 * Checks of Parquet's encodings (Encodings.md of Apache Parquet): how many values a sequence declares, without storing them.
 *
 *   RLE/bit-packing   runs, each a varint header: (groups << 1 | 1) and groups of 8 bit-packed values, or (length << 1) and one value
 *   delta             block size, miniblocks per block, number of values, first value (zigzag); blocks of a minimum (zigzag), a bit width
 *                     (a byte) per miniblock, and the bit-packed miniblocks
 */

/** A position in a page. */
interface PageCursor {
  readonly bytes: Uint8Array;
  at: number;
}

const MAX_BLOCK = 2 ** 20;

/** Returns the number of bits that levels up to `max` take. */
function levelWidth(max: number): number {
  return 32 - Math.clz32(max);
}

/**
 * Moves behind a sequence of runs.
 * @param counted the value to count. Null counts nothing.
 * @returns how many of the values equal `counted`.
 * @throws Error if a run is longer than the sequence.
 */
function passRuns(cursor: PageCursor, width: number, count: number, counted: number | null): number {
  let seen = 0;
  let found = 0;
  while (seen < count) {
    const header = varint(cursor);
    if (header % 2 === 1) {
      const values = 8 * Math.floor(header / 2);
      found += counted === null ? 0 : countPacked(cursor, width, Math.min(values, count - seen), counted);
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
      found += value === counted ? run : 0;
      seen += run;
    }
  }
  return found;
}

function countPacked({ bytes, at }: PageCursor, width: number, count: number, counted: number): number {
  let found = 0;
  for (let index = 0; index < count; index++) {
    found += bitsAt(bytes, at * 8 + index * width, width) === counted ? 1 : 0;
  }
  return found;
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
function checkDelta({ bytes, at }: PageCursor): void {
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
function readDelta(cursor: PageCursor, count: number): Int32Array {
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

function readInt32(cursor: PageCursor): number {
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

function byteOf(cursor: PageCursor): number {
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

/*
 * Checks of a column chunk before the package hyparquet decodes it. A chunk is a sequence of pages, each of which has a header:
 *
 *   field 1 type, 2 uncompressed size, 3 compressed size
 *   field 5 data page: 1 number of values, 2 encoding
 *   field 7 dictionary page: 1 number of values
 *   field 8 data page, version 2: 1 number of values, 2 number of nulls, 4 encoding, 5 bytes of definition levels, 6 bytes of repetition
 *           levels, 7 whether the values are compressed
 *
 * A data page contains repetition levels, definition levels and values. In version 1, each sequence of levels begins with its length
 * (int32), and the page is compressed as a whole; in version 2, only the values are compressed. hyparquet allocates memory for all numbers
 * that a page declares, so a few bytes could exhaust the memory. The checks take linear time and bound what hyparquet allocates.
 */

/** The limit that all pages of a row group share. */
export interface GroupBudget {
  /** Number of bytes that may still be decoded. */
  bytes: number;
}

export interface LeafColumn {
  /** Physical type, for example INT32. */
  readonly type: string | undefined;
  readonly typeLength: number | undefined;
  readonly maxDefinitionLevel: number;
  readonly maxRepetitionLevel: number;
  readonly isCompressed: boolean;
  /** Whether the column is neither in a list nor in a struct. hyparquet then reads no pages beyond the last row. */
  readonly isFlat: boolean;
  /** Number of values, including nulls, that the footer declares. */
  readonly values: number;
}

/** Checks the uncompressed contents of a page. Throws an Error if they do not match the page's header. */
export type ContentCheck = (page: Uint8Array) => void;

const PAGE = { data: 0, dictionary: 2, dataV2: 3 } as const;
const ENCODING = { plain: 0, rle: 3, delta: 5, deltaLength: 6, deltaBytes: 7, byteStreamSplit: 9 } as const;
/** PLAIN_DICTIONARY and RLE_DICTIONARY. */
const DICTIONARY_ENCODINGS: readonly (number | undefined)[] = [2, 8];

interface Page {
  readonly header: Readonly<Record<number, number>>;
  /** The fields of the data page or dictionary page. */
  readonly fields: Readonly<Record<number, number>>;
  readonly values: number;
  readonly contents: Uint8Array;
  readonly end: number;
}

/**
 * Checks the headers of all pages in a chunk, and the contents of the uncompressed pages.
 * @returns the checks for the contents of the compressed pages, in the order in which hyparquet decompresses them.
 * @throws Error if a page is damaged, or if the pages need more memory than the footer declares or the budget allows.
 */
export function checkChunk(chunk: Uint8Array, leaf: LeafColumn, budget: GroupBudget): ContentCheck[] {
  const checks: ContentCheck[] = [];
  let values = 0;
  // Like hyparquet, ignores a single byte at the end.
  for (let at = 0; at < chunk.length - 1 && !(leaf.isFlat && values >= leaf.values); ) {
    const page = readPage(chunk, at);
    at = page.end;
    charge(budget, page.header[2] as number);
    if (page.header[1] === PAGE.dictionary) {
      // A value takes at least a bit.
      if (page.values > 8 * (page.header[2] as number)) {
        throw new Error(`a dictionary declares ${page.values} values in ${page.header[2]} bytes`);
      }
      if (leaf.isCompressed) {
        checks.push(() => {});
      }
      continue;
    }
    values += page.values;
    if (values > leaf.values) {
      throw new Error(`the pages of a column declare ${values} values, but the footer only ${leaf.values}`);
    }
    if (page.header[1] === PAGE.dataV2) {
      checkDataPageV2(page, leaf, budget, checks);
    } else if (leaf.isCompressed) {
      checks.push((contents) => checkDataPage(contents, page, leaf, budget));
    } else {
      checkDataPage(page.contents, page, leaf, budget);
    }
  }
  return checks;
}

/** The number of the header's field that describes a page of each type. */
const FIELD_OF_TYPE: Readonly<Record<number, number>> = { [PAGE.data]: 5, [PAGE.dictionary]: 7, [PAGE.dataV2]: 8 };
const NUMBER_TYPES = [4, 5];
const [THRIFT_FALSE, THRIFT_STRUCT] = [2, 12] as const;

function readPage(chunk: Uint8Array, at: number): Page {
  const cursor = new ThriftCursor(chunk, at);
  const header: Record<number, number> = {};
  const inner: Record<number, Record<number, number>> = {};
  const numbers = (into: Record<number, number>) => (field: number, type: number) => {
    // As in hyparquet, the last of several values for a field counts.
    delete into[field];
    if (type === THRIFT_FALSE) {
      into[field] = 0;
    }
    if (!NUMBER_TYPES.includes(type)) {
      return false;
    }
    into[field] = cursor.integer();
    return true;
  };
  const visitNumber = numbers(header);
  cursor.struct((field, type) => {
    delete inner[field];
    delete header[field];
    if (type !== THRIFT_STRUCT) {
      return visitNumber(field, type);
    }
    inner[field] = {};
    cursor.struct(numbers(inner[field]));
    return true;
  });
  const fields = inner[FIELD_OF_TYPE[header[1] ?? -1] ?? -1];
  const values = fields?.[1] ?? -1;
  const [uncompressed = -1, compressed = -1] = [header[2], header[3]];
  const end = cursor.at + compressed;
  if (fields === undefined || values < 0 || uncompressed < 0 || compressed < 0 || end > chunk.length) {
    throw new Error('the header of a page is damaged');
  }
  return { header, fields, values, contents: chunk.subarray(cursor.at, end), end };
}

function checkDataPage(contents: Uint8Array, { fields, values }: Page, leaf: LeafColumn, budget: GroupBudget): void {
  const cursor: PageCursor = { bytes: contents, at: 0 };
  if (leaf.maxRepetitionLevel > 0) {
    passLevels(cursor, leaf.maxRepetitionLevel, values);
  }
  const present = leaf.maxDefinitionLevel > 0 ? passLevels(cursor, leaf.maxDefinitionLevel, values) : values;
  checkValues(cursor, fields[2], present, leaf, budget);
}

/** Moves behind the levels of a page of version 1. Returns how many of them are the maximum. */
function passLevels(cursor: PageCursor, max: number, values: number): number {
  const length = readInt32(cursor);
  const end = cursor.at + length;
  const found = passRuns(cursor, levelWidth(max), values, max);
  cursor.at = end;
  return found;
}

function checkDataPageV2(page: Page, leaf: LeafColumn, budget: GroupBudget, checks: ContentCheck[]): void {
  const { fields, values, contents, header } = page;
  // hyparquet would read at the position NaN, and never end, if one of these required fields were missing.
  const [nulls = -1, definitionBytes = -1, repetitionBytes = -1] = [fields[2], fields[5], fields[6]];
  const levels = definitionBytes + repetitionBytes;
  if (nulls < 0 || nulls > values || definitionBytes < 0 || repetitionBytes < 0 || levels > contents.length) {
    throw new Error('the header of a page is damaged');
  }
  if (leaf.maxRepetitionLevel > 0) {
    passRuns({ bytes: contents, at: 0 }, levelWidth(leaf.maxRepetitionLevel), values, null);
  }
  if (leaf.maxDefinitionLevel > 0) {
    passRuns({ bytes: contents, at: repetitionBytes }, levelWidth(leaf.maxDefinitionLevel), values, null);
  }
  const check: ContentCheck = (bytes) => checkValues({ bytes, at: 0 }, fields[4], values - nulls, leaf, budget);
  if (leaf.isCompressed && fields[7] !== 0) {
    // The declared size includes the levels.
    if ((header[2] as number) < levels) {
      throw new Error('the header of a page is damaged');
    }
    checks.push(check);
  } else {
    check(contents.subarray(levels));
  }
}

function checkValues(cursor: PageCursor, encoding: number | undefined, count: number, leaf: LeafColumn, budget: GroupBudget): void {
  if (count === 0) {
    return;
  }
  if (DICTIONARY_ENCODINGS.includes(encoding) && leaf.type !== 'BOOLEAN') {
    const width = byteOf(cursor);
    if (width > 32) {
      throw new Error(`a page has indices of ${width} bits`);
    }
    if (width > 0) {
      passRuns(cursor, width, count, null);
    }
    return;
  }
  switch (encoding) {
    case ENCODING.plain:
    case ENCODING.byteStreamSplit:
      checkSize(cursor, count * minimumWidth(leaf));
      return;
    case ENCODING.rle:
      readInt32(cursor);
      passRuns(cursor, 1, count, null);
      return;
    case ENCODING.delta:
    case ENCODING.deltaLength:
      checkDelta(cursor);
      return;
    case ENCODING.deltaBytes:
      checkPrefixes(cursor, count, budget);
      return;
    default:
      throw new Error(`a page has the encoding ${encoding}`);
  }
}

/** Returns the number of bytes that a plain value takes at least. */
function minimumWidth({ type, typeLength }: LeafColumn): number {
  switch (type) {
    case 'BOOLEAN':
      return 1 / 8;
    case 'INT64':
    case 'DOUBLE':
      return 8;
    case 'INT96':
      return 12;
    case 'FIXED_LEN_BYTE_ARRAY':
      return typeLength ?? 0;
    default:
      return 4;
  }
}

function checkSize({ bytes, at }: PageCursor, needed: number): void {
  if (!(needed <= bytes.length - at)) {
    throw new Error(`a page declares values of ${needed} bytes, but contains ${bytes.length - at}`);
  }
}

/** Each value repeats a prefix of the previous value, so the values can need more memory than the page has bytes. */
function checkPrefixes(cursor: PageCursor, count: number, budget: GroupBudget): void {
  const prefixes = readDelta(cursor, count);
  const suffixes = readDelta(cursor, count);
  let previous = 0;
  for (let index = 0; index < count; index++) {
    const [prefix, suffix] = [prefixes[index] as number, suffixes[index] as number];
    if (prefix < 0 || prefix > previous || suffix < 0) {
      throw new Error('a value repeats more than the previous value');
    }
    previous = prefix + suffix;
    // The page contains the suffix itself.
    charge(budget, prefix);
  }
}

function charge(budget: GroupBudget, bytes: number): void {
  budget.bytes -= bytes;
  if (budget.bytes < 0) {
    throw new Error('its pages take more memory than maxGroupBytes allows');
  }
}
