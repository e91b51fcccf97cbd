import { Readable } from 'node:stream';
import { createInflate } from 'node:zlib';
import { ByteCursor } from './byte-cursor.ts';

/*
 * TFile, based on BCFile, is the format of aggregated logs (org.apache.hadoop.io.file.tfile). Integers are big-endian. The VInt and VLong
 * encodings (see readVLong) differ from those of protobuf and WritableUtils.
 *
 *   file         magic (16) | data blocks | meta blocks | meta index | int64 meta index offset | int16 major | int16 minor | magic (16)
 *   meta index   VInt count; each: String "data:" + name, String compression, Region
 *   "BCFile.index", a meta block:  String compression of the data blocks; VInt count; each: Region
 *   Region       VLong offset, VLong size in the file, VLong size when unpacked
 *   String       VInt length, UTF-8
 *   data block   compressed as a whole; records: VInt length, key | value
 *   value        chunks: VInt n < 0: -n bytes, followed by another chunk;  n >= 0: n bytes, the last chunk
 */

const MAGIC = Buffer.from('d111d36891b5d7b639df414092bae150', 'hex');
const TRAILER_BYTES = 8 + 2 + 2 + MAGIC.length;
const MAJOR_VERSION = 1;
/**
 * Limits for sizes that a file declares, to bound memory usage. They allow about 100,000 blocks, and each block is at least 256 KiB long.
 */
const MAXIMUM_INDEX_BYTES = 4 * 1024 * 1024;
const MAXIMUM_BLOCKS = 200_000;
const MAXIMUM_KEY_BYTES = 64 * 1024;

export interface RangeSource {
  readonly size: number;
  stream(offset: number, length: number): Promise<Readable>;
}

export type TFileCompression = 'none' | 'gz';

export interface Region {
  readonly offset: number;
  /** Compressed size in bytes. */
  readonly size: number;
  readonly rawSize: number;
}

export interface BlockIndex {
  readonly compression: TFileCompression;
  readonly blocks: readonly Region[];
}

/** Returns the locations of the data blocks. Throws a RangeError if the file is not a valid TFile. */
export async function readBlockIndex(source: RangeSource): Promise<BlockIndex> {
  if (source.size < MAGIC.length + TRAILER_BYTES) {
    throw new RangeError('too short for a TFile');
  }
  const trailer = await readAll(source, { offset: source.size - TRAILER_BYTES, size: TRAILER_BYTES });
  if (!trailer.subarray(12).equals(MAGIC)) {
    throw new RangeError('not a TFile: the magic number at the end is missing');
  }
  const major = trailer.readInt16BE(8);
  if (major !== MAJOR_VERSION) {
    throw new RangeError(`TFile version ${major}.${trailer.readInt16BE(10)} is not supported`);
  }
  const metaOffset = Number(trailer.readBigInt64BE(0));
  const metaSize = source.size - TRAILER_BYTES - metaOffset;
  checkRegion({ offset: metaOffset, size: metaSize, rawSize: metaSize }, source.size);
  if (metaSize > MAXIMUM_INDEX_BYTES) {
    throw new RangeError('the meta index is too large');
  }

  const meta = cursorOf(await readAll(source, { offset: metaOffset, size: metaSize }));
  for (let left = await readVInt(meta); left > 0; left -= 1) {
    const name = await readString(meta);
    const compression = compressionOf(await readString(meta));
    const region = await readRegion(meta, source.size);
    if (name === 'data:BCFile.index') {
      return readDataIndex(source, compression, region);
    }
  }
  throw new RangeError('a TFile without BCFile.index');
}

/** Opens a block and streams its uncompressed bytes, starting at `from`. */
export async function openBlock(source: RangeSource, compression: TFileCompression, region: Region, from = 0): Promise<ByteCursor> {
  if (compression === 'none') {
    return new ByteCursor(await source.stream(region.offset + from, region.size - from));
  }
  const packed = await source.stream(region.offset, region.size);
  const unpacked = createInflate();
  packed.once('error', (error) => unpacked.destroy(error));
  unpacked.once('close', () => packed.destroy());
  const cursor = new ByteCursor(packed.pipe(unpacked));
  await cursor.skip(from);
  return cursor;
}

/** Reads one record's value, which can consist of several chunks. */
export class ValueCursor {
  readonly #block: ByteCursor;
  #left = 0;
  #isLastChunk = false;

  constructor(block: ByteCursor) {
    this.#block = block;
  }

  async isAtEnd(): Promise<boolean> {
    while (this.#left === 0 && !this.#isLastChunk) {
      const length = await readVInt(this.#block);
      this.#isLastChunk = length >= 0;
      this.#left = Math.abs(length);
    }
    return this.#left === 0;
  }

  /** Reads a string in the format that Java's DataOutput.writeUTF writes: a 16-bit length, then UTF-8. */
  async takeUtf(): Promise<string> {
    const length = (await this.#take(2)).readUInt16BE(0);
    return (await this.#take(length)).toString('utf8');
  }

  /** Skips bytes in the value and returns their locations in the block, or null if there would be more than `most` spans. */
  async locate(length: number, most: number): Promise<BlockRange[] | null> {
    const spans: BlockRange[] = [];
    for (let wanted = length; wanted > 0; ) {
      if (await this.isAtEnd()) {
        throw new RangeError(`a value ends ${wanted} bytes too early`);
      }
      const part = Math.min(wanted, this.#left);
      if (spans.length === most) {
        return null;
      }
      spans.push({ at: this.#block.position, length: part });
      await this.#block.skip(part);
      this.#left -= part;
      wanted -= part;
    }
    return spans;
  }

  async skipRest(): Promise<void> {
    while (!(await this.isAtEnd())) {
      await this.#block.skip(this.#left);
      this.#left = 0;
    }
  }

  async #take(length: number): Promise<Buffer> {
    const parts: Buffer[] = [];
    for (let wanted = length; wanted > 0; ) {
      if (await this.isAtEnd()) {
        throw new RangeError(`a value ends ${wanted} bytes too early`);
      }
      const part = await this.#block.take(Math.min(wanted, this.#left));
      parts.push(part);
      this.#left -= part.length;
      wanted -= part.length;
    }
    return Buffer.concat(parts);
  }
}

/** A contiguous range of bytes in an uncompressed block. */
export interface BlockRange {
  readonly at: number;
  readonly length: number;
}

export async function readKey(block: ByteCursor): Promise<Buffer> {
  const length = await readVInt(block);
  if (length < 0 || length > MAXIMUM_KEY_BYTES) {
    throw new RangeError(`an invalid key of ${length} bytes`);
  }
  return block.take(length);
}

/**
 * Reads a VLong. The signed first byte b determines the encoding:
 *   -32..127      b
 *   -72..-33      (b + 52) << 8, and 1 byte more
 *   -104..-73     (b + 88) << 16, and 2 bytes
 *   -120..-105    (b + 112) << 24, and 3 bytes
 *   -128..-121    b + 129 bytes (4 to 8 of them), signed
 */
export async function readVLong(cursor: ByteCursor): Promise<number> {
  const first = (await cursor.take(1)).readInt8(0);
  if (first >= -32) {
    return first;
  }
  if (first >= -72) {
    return (first + 52) * 2 ** 8 + (await cursor.take(1)).readUInt8(0);
  }
  if (first >= -104) {
    return (first + 88) * 2 ** 16 + (await cursor.take(2)).readUInt16BE(0);
  }
  if (first >= -120) {
    return (first + 112) * 2 ** 24 + (await cursor.take(3)).readUIntBE(0, 3);
  }
  const length = first + 129;
  if (length < 4) {
    throw new RangeError(`an invalid VLong of ${length} bytes`);
  }
  const bytes = await cursor.take(length);
  let value = BigInt(bytes.readInt8(0));
  for (const byte of bytes.subarray(1)) {
    value = value * 256n + BigInt(byte);
  }
  const number = Number(value);
  if (!Number.isSafeInteger(number)) {
    throw new RangeError(`the VLong ${value} is too large`);
  }
  return number;
}

async function readVInt(cursor: ByteCursor): Promise<number> {
  const value = await readVLong(cursor);
  if (value !== (value | 0)) {
    throw new RangeError(`the VInt ${value} does not fit into 32 bits`);
  }
  return value;
}

async function readDataIndex(source: RangeSource, compression: TFileCompression, region: Region): Promise<BlockIndex> {
  if (region.rawSize > MAXIMUM_INDEX_BYTES) {
    throw new RangeError('BCFile.index is too large');
  }
  const cursor = await openBlock(source, compression, region);
  try {
    const dataCompression = compressionOf(await readString(cursor));
    const count = await readVInt(cursor);
    if (count < 0 || count > MAXIMUM_BLOCKS) {
      throw new RangeError(`an invalid count of ${count} data blocks`);
    }
    const blocks: Region[] = [];
    // Blocks must be in file order and must not overlap. Otherwise, a small crafted file could make this client read the same bytes up to
    // 200,000 times.
    for (let end = 0; blocks.length < count; ) {
      const block = await readRegion(cursor, source.size);
      if (block.offset < end) {
        throw new RangeError(`the block at ${block.offset} overlaps the previous block`);
      }
      end = block.offset + block.size;
      blocks.push(block);
    }
    return { compression: dataCompression, blocks };
  } finally {
    cursor.close();
  }
}

async function readRegion(cursor: ByteCursor, fileSize: number): Promise<Region> {
  const region = { offset: await readVLong(cursor), size: await readVLong(cursor), rawSize: await readVLong(cursor) };
  checkRegion(region, fileSize);
  return region;
}

function checkRegion(region: Region, fileSize: number): void {
  const { offset, size, rawSize } = region;
  if (offset < 0 || size < 0 || rawSize < 0 || offset + size > fileSize) {
    throw new RangeError(`an invalid region of ${size} bytes at ${offset} in a file of ${fileSize}`);
  }
}

async function readString(cursor: ByteCursor): Promise<string> {
  const length = await readVInt(cursor);
  if (length < 0 || length > MAXIMUM_KEY_BYTES) {
    throw new RangeError(`an invalid string of ${length} bytes`);
  }
  return (await cursor.take(length)).toString('utf8');
}

function compressionOf(name: string): TFileCompression {
  if (name === 'none' || name === 'gz') {
    return name;
  }
  throw new RangeError(`compressed by "${name}", which is not supported`);
}

async function readAll(source: RangeSource, range: { offset: number; size: number }): Promise<Buffer> {
  return new ByteCursor(await source.stream(range.offset, range.size)).take(range.size);
}

function cursorOf(bytes: Buffer): ByteCursor {
  return new ByteCursor(Readable.from([bytes]));
}
