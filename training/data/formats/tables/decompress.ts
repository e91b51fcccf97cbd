import { brotliDecompressSync, gunzipSync, inflateRawSync } from 'node:zlib';
import { Decompress } from 'fzstd';
import { snappyUncompressor } from 'hysnappy';

/*
 * Decompression of whole blocks in memory. Each function throws an Error if the result would exceed `mostBytes`, before it allocates more
 * memory.
 */

export function unpackGzip(data: Uint8Array, mostBytes: number): Uint8Array {
  return gunzipSync(data, { maxOutputLength: Math.max(1, mostBytes) });
}

export function unpackBrotli(data: Uint8Array, mostBytes: number): Uint8Array {
  return brotliDecompressSync(data, { maxOutputLength: Math.max(1, mostBytes) });
}

export function unpackDeflate(data: Uint8Array, mostBytes: number): Uint8Array {
  return inflateRawSync(data, { maxOutputLength: Math.max(1, mostBytes) });
}

/** The window of zstd's own decoder: no encoder uses a larger one unless a user asks for it. */
const MAX_WINDOW_BYTES = 128 * 1024 * 1024;

export function unpackZstandard(data: Uint8Array, mostBytes: number): Uint8Array {
  checkWindows(data, Math.max(mostBytes, MAX_WINDOW_BYTES));
  const pieces: Uint8Array[] = [];
  let length = 0;
  const stream = new Decompress((piece) => {
    length += piece.length;
    if (length > mostBytes) {
      throw tooLarge(mostBytes);
    }
    pieces.push(piece.slice());
  });
  stream.push(data, true);
  return Buffer.concat(pieces, length);
}

const ZSTANDARD = 0xfd2fb528;
const SKIPPABLE = 0x184d2a50;

/**
 * Checks the window size of each frame, which fzstd allocates (RFC 8878). A frame is a magic number (4 bytes), a descriptor, the window
 * unless the frame is a single segment, a dictionary id, the size of the contents, blocks, and a checksum (4 bytes). A block is a header of
 * 3 bytes (last, type, size) and its data.
 */
function checkWindows({ buffer, byteOffset, byteLength }: Uint8Array, mostBytes: number): void {
  const bytes = Buffer.from(buffer, byteOffset, byteLength);
  for (let at = 0; at + 8 <= bytes.length; ) {
    const magic = bytes.readUInt32LE(at);
    if ((magic & 0xfffffff0) >>> 0 === SKIPPABLE) {
      at += 8 + bytes.readUInt32LE(at + 4);
      continue;
    }
    if (magic !== ZSTANDARD) {
      return;
    }
    const descriptor = bytes.readUInt8(at + 4);
    const isSingle = (descriptor & 0x20) !== 0;
    const window = bytes.readUInt8(at + 5);
    const exponent = 2 ** (10 + (window >> 3));
    if (!isSingle && exponent + (exponent / 8) * (window & 7) > mostBytes) {
      throw tooLarge(mostBytes);
    }
    const dictionary = [0, 1, 2, 4][descriptor & 3] as number;
    const sizeBytes = [isSingle ? 1 : 0, 2, 4, 8][descriptor >> 6] as number;
    const sizeAt = at + 5 + (isSingle ? 0 : 1) + dictionary;
    if (isSingle && sizeBytes >= 4 && sizeAt + sizeBytes <= bytes.length && sizeOf(bytes, sizeAt, sizeBytes) > mostBytes) {
      throw tooLarge(mostBytes);
    }
    at = endOfBlocks(bytes, sizeAt + sizeBytes) + ((descriptor & 4) === 0 ? 0 : 4);
  }
}

function sizeOf(bytes: Buffer, at: number, length: number): number {
  return length === 4 ? bytes.readUInt32LE(at) : Number(bytes.readBigUInt64LE(at));
}

const RLE_BLOCK = 1;

function endOfBlocks(bytes: Buffer, from: number): number {
  for (let at = from; at + 3 <= bytes.length; ) {
    const header = bytes.readUIntLE(at, 3);
    at += 3 + (((header >> 1) & 3) === RLE_BLOCK ? 1 : header >> 3);
    if ((header & 1) === 1) {
      return at;
    }
  }
  return bytes.length;
}

let uncompress: ReturnType<typeof snappyUncompressor> | null = null;

/** Decompresses Snappy's raw format, which begins with the uncompressed length as a varint. */
export function unpackSnappy(data: Uint8Array, mostBytes: number): Uint8Array {
  let length = 0;
  let at = 0;
  for (; at < 5; at++) {
    const byte = data[at] ?? 0;
    length += (byte & 0x7f) * 2 ** (7 * at);
    if (byte < 0x80) {
      break;
    }
  }
  if (length > mostBytes) {
    throw tooLarge(mostBytes);
  }
  uncompress ??= snappyUncompressor();
  return uncompress(data, length);
}

function tooLarge(mostBytes: number): Error {
  return new Error(`the uncompressed data exceeds ${mostBytes} bytes`);
}

/** Loads the decompressors for LZ4 in Hadoop's frames, and for LZ4's raw format. Both allocate the declared length. */
export async function unpackLz4(): Promise<Record<'hadoop' | 'raw', (data: Uint8Array, length: number) => Uint8Array>> {
  const { decompressLz4, decompressLz4Raw } = await import('hyparquet-compressors');
  return { hadoop: decompressLz4, raw: decompressLz4Raw };
}
