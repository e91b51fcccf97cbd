import type { Readable } from 'node:stream';
import { Readable as ReadableStream } from 'node:stream';
import { finished, pipeline } from 'node:stream/promises';
import { createGunzip, createInflate } from 'node:zlib';
import { backoffMs, pause } from '../../../platform/async/backoff.ts';
import { messageOf, TonyError } from '../../../platform/errors.ts';
import { isStorageUnreachable } from '../../../storage/storage-unreachable.ts';
import { changedFile, hasChanged, openListed, removedFile } from '../reading/file-checks.ts';
import type { DataFile } from '../reading/file-set.ts';
import type { ReadContext } from '../reading/read-context.ts';

/**
 * How a file is compressed. With `auto`, the file name decides: `.gz` means gzip, `.zlib` means zlib, and any other name means no
 * compression.
 */
export type Compression = 'auto' | 'none' | 'gzip' | 'zlib';

const RETRIES = 4;
const BACKOFF = { firstMs: 250, mostMs: 2_000 };
const UNPACKED_CHUNK_BYTES = 256 * 1024;

export function compressionOf(file: DataFile, option: Compression): 'none' | 'gzip' | 'zlib' {
  if (option !== 'auto') {
    return option;
  }
  return file.uri.endsWith('.gz') ? 'gzip' : file.uri.endsWith('.zlib') ? 'zlib' : 'none';
}

const GZIP_MAGIC = [0x1f, 0x8b, 0x08];

/** Returns the compression that the first bytes of a file indicate, if they are not the beginning of a file of the expected format. */
export function compressionFrom(bytes: Buffer): 'none' | 'gzip' | 'zlib' {
  if (GZIP_MAGIC.every((byte, index) => bytes[index] === byte)) {
    return 'gzip';
  }
  // RFC 1950: method 8 with a window of 32 KiB; the first two bytes are a multiple of 31.
  return bytes[0] === 0x78 && bytes.length >= 2 && bytes.readUInt16BE(0) % 31 === 0 ? 'zlib' : 'none';
}

/**
 * Reads and decompresses a file. `offset` is the first byte to return, counted in the uncompressed contents. Closes the file when the
 * caller's loop ends, even after `break` or an error.
 */
export async function* readContents(
  file: DataFile,
  compression: 'none' | 'gzip' | 'zlib',
  offset: number,
  context: ReadContext,
): AsyncGenerator<Buffer, void> {
  if (compression === 'none') {
    yield* readBytes(file, offset, context);
    return;
  }
  if (file.size === 0) {
    // Hadoop writes empty files for empty parts, without the header of the compression.
    return;
  }
  let toSkip = offset;
  for await (const bytes of unpack(file, compression, context)) {
    const skipped = Math.min(toSkip, bytes.length);
    toSkip -= skipped;
    if (skipped < bytes.length) {
      yield skipped === 0 ? bytes : bytes.subarray(skipped);
    }
  }
}

/**
 * Reads the bytes from `from` to `to` (exclusive) into a new ArrayBuffer. The caller must check the length first.
 * @throws TonyError DATA_INVALID if the file does not contain these bytes.
 */
export async function readRange(file: DataFile, from: number, to: number, context: ReadContext): Promise<Uint8Array<ArrayBuffer>> {
  if (!(from >= 0 && from <= to && to <= file.size)) {
    throw new TonyError('DATA_INVALID', `${file.uri} refers to its own bytes ${from} to ${to}, but is only ${file.size} bytes long`);
  }
  const bytes = new Uint8Array(to - from);
  let at = 0;
  for await (const piece of readBytes(file, from, context, to)) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}

/** Reads a file's stored bytes up to `end`, and verifies that the file has not changed meanwhile. */
async function* readBytes(file: DataFile, from: number, context: ReadContext, end = file.size): AsyncGenerator<Buffer, void> {
  const { storage, checks, signal } = context;
  let hasFailed = false;
  try {
    yield* readPieces(file, from, end, context);
  } catch (error) {
    hasFailed = true;
    throw error;
  } finally {
    // A caller may stop at the end of its split, before the end of the file.
    if (!hasFailed && !signal.aborted) {
      await checks?.finished(storage, file);
    }
  }
}

/** Reads bytes. If the connection fails and the file has not changed, reopens the file and continues. */
async function* readPieces(file: DataFile, from: number, end: number, context: ReadContext): AsyncGenerator<Buffer, void> {
  const { storage, checks, signal } = context;
  let offset = from;
  let failures = 0;
  while (offset < end) {
    let stream: Readable | null = null;
    const abort = () => stream?.destroy();
    signal.addEventListener('abort', abort);
    try {
      signal.throwIfAborted();
      stream = await openListed(storage, file, { offset, length: end - offset }, checks);
      for await (const bytes of stream as AsyncIterable<Buffer>) {
        offset += bytes.length;
        failures = 0;
        yield bytes;
      }
      signal.throwIfAborted();
      if (offset < end) {
        throw changedFile(file);
      }
    } catch (error) {
      signal.throwIfAborted();
      if (!isStorageUnreachable(error) || failures === RETRIES) {
        throw error;
      }
      failures++;
      await pause(backoffMs(failures, BACKOFF), signal);
      signal.throwIfAborted();
      const now = await storage.stat(file.uri);
      if (now === null) {
        throw removedFile(file);
      }
      if (hasChanged(file, now, checks ?? { comparesLocalTimes: true })) {
        throw changedFile(file);
      }
    } finally {
      signal.removeEventListener('abort', abort);
      if (stream !== null) {
        await closed(stream as Readable);
      }
    }
  }
}

/** Destroys the stream, and waits until it is closed, because the stream may still be writing a local copy. */
async function closed(stream: Readable): Promise<void> {
  stream.destroy();
  await finished(stream).catch(() => {});
}

async function* unpack(file: DataFile, compression: 'gzip' | 'zlib', context: ReadContext): AsyncGenerator<Buffer, void> {
  const create = compression === 'gzip' ? createGunzip : createInflate;
  const unpacked = create({ chunkSize: UNPACKED_CHUNK_BYTES });
  const packed = ReadableStream.from(readBytes(file, 0, context));
  // Pipeline errors also reach the loop below, through `unpacked`.
  const feeding = pipeline(packed, unpacked).catch(() => {});
  let size = 0;
  try {
    for await (const bytes of unpacked as AsyncIterable<Buffer>) {
      size += bytes.length;
      yield bytes;
    }
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (!code.startsWith('Z_')) {
      throw error;
    }
    throw new TonyError('DATA_INVALID', `${file.uri} cannot be decompressed beyond byte ${size} of its contents: ${messageOf(error)}`, {
      cause: error,
    });
  } finally {
    unpacked.destroy();
    await feeding;
    await closed(packed);
  }
}
