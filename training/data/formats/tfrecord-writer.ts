import { PassThrough } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createDeflate, createGzip } from 'node:zlib';
import { encodeTfRecord } from '../../../contract/encoding/tfrecord.ts';
import { wholeNumber } from '../../../platform/check-options.ts';
import type { Storage } from '../../../storage/storage.ts';

export interface WriteTfRecordOptions {
  readonly compression?: 'none' | 'gzip' | 'zlib';
  /**
   * Number of files among which the records are distributed. File n is named `NAME-0000n-of-0000N`. By default, there is one file named
   * `NAME`.
   */
  readonly shards?: number;
}

export interface WrittenTfRecords {
  readonly uris: readonly string[];
  readonly records: number;
}

/** Approximate size in bytes of one write to the storage. */
const PIECE_BYTES = 256 * 1024;

/**
 * Writes records to one file, or to several files in turn. Each file becomes visible only after all of its records have been written. If
 * the record source fails, no file becomes visible. Waits while the storage is slower than the source, so that little data is in memory at
 * any time.
 */
export async function writeTfRecords(
  storage: Storage,
  uri: string,
  records: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
  options: WriteTfRecordOptions = {},
): Promise<WrittenTfRecords> {
  const { compression = 'none' } = options;
  const shards = wholeNumber('shards', options.shards ?? 1);
  const uris = options.shards === undefined ? [uri] : Array.from({ length: shards }, (_, index) => shardName(uri, index, shards));
  const writers = uris.map((each) => new FileWriter(storage, each, compression));
  let count = 0;
  try {
    for await (const record of records) {
      await (writers[count++ % shards] as FileWriter).add(record);
    }
    await Promise.all(writers.map((writer) => writer.end()));
  } catch (error) {
    await Promise.all(writers.map((writer) => writer.abandon(error)));
    throw error;
  }
  return { uris, records: count };
}

/** Returns a file name that follows TensorFlow's convention, for example `train-00000-of-00010`. */
export function shardName(name: string, index: number, shards: number): string {
  return `${name}-${String(index).padStart(5, '0')}-of-${String(shards).padStart(5, '0')}`;
}

class FileWriter {
  readonly #input: PassThrough;
  readonly #done: Promise<unknown>;
  #pieces: Buffer[] = [];
  #bytes = 0;

  constructor(storage: Storage, uri: string, compression: 'none' | 'gzip' | 'zlib') {
    this.#input = new PassThrough({ highWaterMark: PIECE_BYTES });
    const packed = compression === 'none' ? null : compression === 'gzip' ? createGzip() : createDeflate();
    const packing = packed === null ? Promise.resolve() : pipeline(this.#input, packed);
    const writing = storage.write(uri, (packed ?? this.#input) as AsyncIterable<Uint8Array>);
    // After a storage error, calls to `add` that wait for the storage must fail.
    writing.catch((error) => this.#input.destroy(error));
    packing.catch(() => {});
    this.#done = Promise.all([writing, packing]);
    this.#done.catch(() => {});
    this.#input.on('error', () => {});
  }

  async add(record: Uint8Array): Promise<void> {
    const framed = encodeTfRecord(record);
    this.#pieces.push(framed);
    this.#bytes += framed.length;
    if (this.#bytes >= PIECE_BYTES) {
      await this.#flush();
    }
  }

  async end(): Promise<void> {
    await this.#flush();
    this.#input.end();
    await this.#done;
  }

  async abandon(error: unknown): Promise<void> {
    this.#input.destroy(error instanceof Error ? error : new Error(String(error)));
    await this.#done.catch(() => {});
  }

  async #flush(): Promise<void> {
    if (this.#bytes === 0) {
      return;
    }
    const piece = Buffer.concat(this.#pieces, this.#bytes);
    this.#pieces = [];
    this.#bytes = 0;
    if (this.#input.destroyed) {
      await this.#done;
    }
    if (!this.#input.write(piece)) {
      await this.#drained();
    }
  }

  async #drained(): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const settle = () => {
        this.#input.off('drain', settle);
        this.#input.off('close', settle);
        if (this.#input.destroyed) {
          this.#done.then(() => resolve(), reject);
        } else {
          resolve();
        }
      };
      this.#input.once('drain', settle);
      this.#input.once('close', settle);
    });
  }
}
