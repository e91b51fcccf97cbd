import type { Readable } from 'node:stream';
import { Readable as ReadableStream } from 'node:stream';
import { finished, pipeline } from 'node:stream/promises';
import { createGunzip, createInflate } from 'node:zlib';
import { backoffMs, pause } from '../../../platform/async/backoff.ts';
import { messageOf, TonyError } from '../../../platform/errors.ts';
import { isStorageUnreachable } from '../../../storage/storage-unreachable.ts';
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

/** Reads a file's stored bytes up to `end`. If the connection fails and the file has not changed, reopens the file and continues. */
async function* readBytes(file: DataFile, from: number, context: ReadContext, end = file.size): AsyncGenerator<Buffer, void> {
  const { storage, signal } = context;
  let offset = from;
  let failures = 0;
  while (offset < end) {
    let stream: Readable | null = null;
    const abort = () => stream?.destroy();
    signal.addEventListener('abort', abort);
    try {
      signal.throwIfAborted();
      stream = await storage.open(file.uri, { offset, length: end - offset });
      for await (const bytes of stream as AsyncIterable<Buffer>) {
        offset += bytes.length;
        failures = 0;
        yield bytes;
      }
      signal.throwIfAborted();
      if (offset < end) {
        throw changed(file);
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
      if (now?.size !== file.size || now.modifiedAt !== file.modifiedAt) {
        throw changed(file);
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

function changed(file: DataFile): TonyError {
  return new TonyError('DATA_INVALID', `${file.uri} changed while it was read`, { hint: 'Write new data to a new file name.' });
}
