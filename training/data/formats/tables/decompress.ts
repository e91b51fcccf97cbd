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

export function unpackZstandard(data: Uint8Array, mostBytes: number): Uint8Array {
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
