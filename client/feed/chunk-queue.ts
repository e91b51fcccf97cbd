import { types } from 'node:util';
import { TonyError } from '../../platform/errors.ts';
import { MAXIMUM_RECORD_BYTES } from '../../protos/feed-protocol.ts';

/** A record to send. Readers receive it as bytes, and strings are encoded as UTF-8. */
export type FeedRecord = string | ArrayBufferView | ArrayBufferLike;

const CHUNK_BYTES = 256 * 1024;
const CHUNK_RECORDS = 256;
/** Estimated memory overhead per buffered record, in bytes. */
const RECORD_COST = 64;

/** Records to send in one message. Sequence numbers start at 1 and have no gaps. */
export interface FeedChunk {
  readonly sequence: number;
  readonly records: readonly Uint8Array[];
  readonly bytes: number;
}

/**
 * Buffers one producer's records until workers acknowledge them. A named producer may continue the sequence of an earlier process, so
 * chunks are not numbered until the caller calls `numberFrom` with the number that the job expects next.
 */
export class ChunkQueue {
  readonly #chunks: FeedChunk[] = [];
  #chunkBytes = 0;
  #records: Uint8Array[] = [];
  #recordBytes = 0;
  #nextSequence = 1;
  #isNumbered: boolean;

  constructor(isNumbered: boolean) {
    this.#isNumbered = isNumbered;
  }

  get bytes(): number {
    return this.#chunkBytes + this.#recordBytes;
  }

  /** Sequence number of the oldest chunk, or of the next chunk if the queue is empty. */
  get first(): number {
    return this.#chunks[0]?.sequence ?? this.#nextSequence;
  }

  /** Sequence number of the newest chunk, or 0 before the first chunk. Null while chunks are not numbered yet. */
  get last(): number | null {
    return this.#isNumbered ? this.#nextSequence - 1 : null;
  }

  /**
   * Adds a record that `toRecordBytes` has converted.
   * @returns `full` if the pending records fill a chunk, or `begun` if this record is the only pending one
   */
  add(record: Uint8Array): 'full' | 'begun' | 'pending' {
    if (this.#recordBytes + record.length > CHUNK_BYTES) {
      this.cut();
    }
    this.#records.push(record);
    this.#recordBytes += record.length + RECORD_COST;
    if (this.#records.length >= CHUNK_RECORDS || this.#recordBytes >= CHUNK_BYTES) {
      return 'full';
    }
    return this.#records.length === 1 ? 'begun' : 'pending';
  }

  /** Moves the pending records into chunks. Does nothing while chunks are not numbered yet. */
  cut(): void {
    if (!this.#isNumbered) {
      return;
    }
    let records: Uint8Array[] = [];
    let bytes = 0;
    const push = (): void => {
      if (records.length === 0) {
        return;
      }
      this.#chunks.push({ sequence: this.#nextSequence++, records, bytes });
      this.#chunkBytes += bytes;
      [records, bytes] = [[], 0];
    };
    // More records may have accumulated than fit into one chunk, because chunks were not numbered yet.
    for (const record of this.#records) {
      const cost = record.length + RECORD_COST;
      if (records.length >= CHUNK_RECORDS || bytes + cost > CHUNK_BYTES) {
        push();
      }
      records.push(record);
      bytes += cost;
    }
    push();
    this.#records = [];
    this.#recordBytes = 0;
  }

  /** Numbers the chunks, starting with `sequence`. Only the first call has an effect. */
  numberFrom(sequence: number): void {
    if (!this.#isNumbered) {
      this.#isNumbered = true;
      this.#nextSequence = sequence;
      this.cut();
    }
  }

  /**
   * Removes the chunks with sequence numbers up to `taken`, which workers have acknowledged.
   * @returns the number of removed records
   */
  acknowledge(taken: number): number {
    let count = 0;
    for (let chunk = this.#chunks[0]; chunk !== undefined && chunk.sequence <= taken; chunk = this.#chunks[0]) {
      this.#chunks.shift();
      this.#chunkBytes -= chunk.bytes;
      count += chunk.records.length;
    }
    return count;
  }

  /**
   * Yields the chunks, starting with sequence number `from`, that fit into a window of `windowBytes`. Earlier unacknowledged chunks use up
   * part of the window.
   */
  *within(windowBytes: number, from: number): Generator<FeedChunk> {
    let bytes = 0;
    for (const chunk of this.#chunks) {
      bytes += chunk.bytes;
      // The first chunk may exceed the window, unless the window is 0.
      if (bytes > windowBytes && (bytes > chunk.bytes || windowBytes === 0)) {
        return;
      }
      if (chunk.sequence >= from) {
        yield chunk;
      }
    }
  }
}

/**
 * Returns a copy of the record as bytes, because the caller may reuse its buffer.
 * @throws TonyError USAGE if the value is unsupported or too large
 */
export function toRecordBytes(record: FeedRecord): Uint8Array {
  const bytes = bytesOf(record);
  if (bytes.length > MAXIMUM_RECORD_BYTES) {
    throw new TonyError('USAGE', `A record of ${bytes.length} bytes is too large for a feed; the limit is ${MAXIMUM_RECORD_BYTES} bytes.`);
  }
  return bytes;
}

function bytesOf(record: FeedRecord): Uint8Array {
  if (typeof record === 'string') {
    return Buffer.from(record);
  }
  if (ArrayBuffer.isView(record)) {
    return Uint8Array.from(new Uint8Array(record.buffer, record.byteOffset, record.byteLength));
  }
  if (types.isAnyArrayBuffer(record)) {
    return Uint8Array.from(new Uint8Array(record));
  }
  throw new TonyError('USAGE', `A feed accepts strings and bytes, not ${kindOf(record)}.`, {
    hint: 'Pass JSON.stringify(value), or the bytes that your program decodes.',
  });
}

function kindOf(value: unknown): string {
  if (value === null || value === undefined) {
    return String(value);
  }
  if (typeof value !== 'object') {
    return `a ${typeof value}`;
  }
  return Array.isArray(value) ? 'an array' : 'an object';
}
