import { crc32 } from 'node:zlib';
import { TonyError } from '../../../../platform/errors.ts';
import { undecodable } from '../damage.ts';
import { decodeUtf8 } from '../utf8.ts';
import { type AvroCursor, readMetadata, readSafeLong } from './avro-reader.ts';
import { type AvroType, parseAvroSchema } from './avro-schema.ts';
import type { ByteWindow } from './byte-window.ts';
import { unpackDeflate, unpackSnappy, unpackZstandard } from './decompress.ts';

/*
 * Avro's object container files (Apache Avro specification, "Object Container Files"):
 *
 *   "Obj" 1, metadata (a map from strings to bytes, with avro.schema and avro.codec), sync marker of 16 bytes
 *   blocks: number of records (long), length of the data (long), data, sync marker
 *
 * A long is a zigzag-encoded varint of at most 10 bytes.
 */

const MAGIC = Buffer.from('Obj\x01', 'latin1');
const SYNC_BYTES = 16;
const MAX_HEADER_BYTES = 16 * 1024 * 1024;
const MAX_LONG_BYTES = 10;

export interface AvroHeader {
  readonly type: AvroType;
  readonly sync: Buffer;
  /** Offset of the first block. */
  readonly end: number;
  unpack(data: Buffer, mostBytes: number): Buffer;
}

export interface AvroBlock {
  readonly offset: number;
  readonly count: number;
  readonly data: Buffer;
}

/**
 * Reads a file's header.
 * @throws TonyError DATA_INVALID if the file is not an Avro file, or if its header is damaged.
 */
export async function readAvroHeader(window: ByteWindow, uri: string): Promise<AvroHeader> {
  for (let length = 4096; ; length *= 4) {
    const isWhole = await window.fill(length);
    const { bytes } = window;
    if (!bytes.subarray(0, MAGIC.length).equals(MAGIC)) {
      throw new TonyError('DATA_INVALID', `${uri} is not an Avro file: it does not begin with "Obj" and the byte 1`);
    }
    const header = decodeHeader(bytes);
    if (header !== null) {
      const { meta, sync, end } = header;
      window.take(end);
      const codec = meta.get('avro.codec')?.toString() ?? 'null';
      return { type: schemaOf(meta.get('avro.schema'), uri), sync, end, unpack: unpackerOf(codec, uri) };
    }
    if (!isWhole || length >= MAX_HEADER_BYTES) {
      throw new TonyError('DATA_INVALID', `the header of ${uri} is damaged, or longer than ${MAX_HEADER_BYTES} bytes`);
    }
  }
}

interface DecodedHeader {
  readonly meta: ReadonlyMap<string, Buffer>;
  readonly sync: Buffer;
  readonly end: number;
}

/** Returns null if the header is damaged, or does not end within these bytes. */
function decodeHeader(bytes: Buffer): DecodedHeader | null {
  const cursor: AvroCursor = { bytes, at: MAGIC.length, emptyValues: 0 };
  try {
    const meta = readMetadata(cursor);
    const end = cursor.at + SYNC_BYTES;
    return end > bytes.length ? null : { meta, sync: Buffer.from(bytes.subarray(cursor.at, end)), end };
  } catch {
    return null;
  }
}

function schemaOf(text: Buffer | undefined, uri: string): AvroType {
  try {
    return parseAvroSchema(decodeUtf8(text ?? Buffer.alloc(0)));
  } catch (error) {
    throw undecodable(error, `${uri} has an invalid schema`);
  }
}

/** Moves the window to the end of the next sync marker, where a block begins. Returns false if no marker follows. */
export async function skipToBlock(window: ByteWindow, { sync }: AvroHeader): Promise<boolean> {
  for (;;) {
    const at = window.bytes.indexOf(sync);
    if (at !== -1) {
      window.take(at + SYNC_BYTES);
      return true;
    }
    // The last bytes of the window may be the beginning of a marker.
    window.take(Math.max(0, window.bytes.length - SYNC_BYTES + 1));
    if (!(await window.fill(window.bytes.length + 1))) {
      return false;
    }
  }
}

/**
 * Reads the block at the window's offset. Returns null at the end of the file.
 * @param mostBytes the maximum length of a block's data. A longer block is rejected before memory is allocated.
 * @throws TonyError DATA_INVALID if the block is damaged or too long.
 */
export async function readBlock(window: ByteWindow, { sync }: AvroHeader, mostBytes: number, uri: string): Promise<AvroBlock | null> {
  const { offset } = window;
  const fail = (what: string) => new TonyError('DATA_INVALID', `${uri}: the block at byte ${offset} ${what}`);
  if (!(await window.fill(1))) {
    return null;
  }
  await window.fill(2 * MAX_LONG_BYTES);
  const [count, length] = takeLengths(window) ?? [-1, -1];
  if (count < 0 || length < 0) {
    throw fail('is damaged');
  }
  if (length > mostBytes) {
    throw fail(`has ${length} bytes; the maximum is ${mostBytes} (maxRecordBytes)`);
  }
  if (!(await window.fill(length + SYNC_BYTES))) {
    throw fail('is incomplete');
  }
  const data = window.take(length);
  if (!window.take(SYNC_BYTES).equals(sync)) {
    throw fail('is damaged: no sync marker follows it');
  }
  return { offset, count, data };
}

/** Takes a block's record count and length from the window. Returns null if they are damaged. */
function takeLengths(window: ByteWindow): [count: number, length: number] | null {
  const cursor: AvroCursor = { bytes: window.bytes, at: 0, emptyValues: 0 };
  try {
    const lengths: [number, number] = [readSafeLong(cursor), readSafeLong(cursor)];
    window.take(cursor.at);
    return lengths;
  } catch {
    return null;
  }
}

function unpackerOf(codec: string, uri: string): AvroHeader['unpack'] {
  switch (codec) {
    case 'null':
      return (data) => data;
    case 'deflate':
      return (data, most) => asBuffer(unpackDeflate(data, most));
    case 'zstandard':
      return (data, most) => asBuffer(unpackZstandard(data, most));
    case 'snappy':
      return unpackSnappyBlock;
    default:
      throw new TonyError('DATA_INVALID', `${uri} is compressed with ${codec}, which tony-ts cannot read`, {
        hint: 'Write the file with the codec deflate, snappy, zstandard or null.',
      });
  }
}

/** Decompresses a block and verifies its checksum. In Avro, the CRC-32 of the uncompressed data follows the Snappy data. */
function unpackSnappyBlock(data: Buffer, most: number): Buffer {
  const unpacked = asBuffer(unpackSnappy(data.subarray(0, -4), most));
  if (data.length < 4 || crc32(unpacked) !== data.readUInt32BE(data.length - 4)) {
    throw new Error('its checksum is wrong');
  }
  return unpacked;
}

function asBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}
