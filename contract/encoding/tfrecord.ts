import { TonyError } from '../../platform/errors.ts';
import { maskedSumsOf } from './crc32c.ts';
import { FOOTER_BYTES, HEADER_BYTES, sealRecord } from './tfrecord-frame.ts';

/**
 * Encodes one record. A TFRecord file is a sequence of records (see tfrecord-frame.ts), which may be compressed as a whole with gzip or
 * zlib.
 *
 * The format does not mark the start of a record. A reader must therefore start at the beginning of the file or at a known position. If a
 * record's length is damaged, the rest of the file is unreadable.
 */
export function encodeTfRecord(data: Uint8Array): Buffer {
  const record = Buffer.allocUnsafe(HEADER_BYTES + data.length + FOOTER_BYTES);
  record.set(data, HEADER_BYTES);
  return sealRecord(record);
}

/**
 * The extent of damage in a file. With `record`, one record's data is damaged. With `long`, a record exceeds the maximum length. With
 * `rest`, the rest of the file is unreadable, because a record's length is damaged or the file ends within a record.
 */
export type DamageKind = 'record' | 'long' | 'rest';

export interface TfRecordParserOptions {
  /** Name of the file, for error messages. */
  readonly where: string;
  /** Position at which the parser starts, in the uncompressed file. */
  readonly offset: number;
  /** Length of the uncompressed file, or Infinity if it is unknown. */
  readonly end: number;
  /** Maximum number of bytes in a record. The parser never buffers a longer record. */
  readonly maxRecordBytes: number;
  /**
   * Called whenever the parser finds damage. If the callback returns, the parser skips the damaged part. If the callback throws, parsing
   * fails.
   */
  readonly onDamage: (damage: TonyError, kind: DamageKind) => void;
}

/** Parses records from pieces of a file. A record that lies within one piece is returned as a view of the piece. */
export class TfRecordParser {
  readonly #options: TfRecordParserOptions;
  /** Bytes of a record that continues in the next piece. */
  #pending: Buffer[] = [];
  #pendingBytes = 0;
  /** Number of pending bytes that the parser needs before it can continue. */
  #needed = HEADER_BYTES;
  /** Number of bytes that the parser must still skip, because their record exceeds the maximum length. */
  #passing = 0;
  #offset: number;
  #taken: number;
  #isLost = false;

  constructor(options: TfRecordParserOptions) {
    this.#options = options;
    this.#offset = options.offset;
    this.#taken = options.offset;
  }

  /** Position of the first record that the parser has not returned yet. */
  get offset(): number {
    return this.#offset;
  }

  get taken(): number {
    return this.#taken;
  }

  get isLost(): boolean {
    return this.#isLost;
  }

  get isWithinRecord(): boolean {
    return this.#pendingBytes > 0 || this.#passing > 0;
  }

  /** Parses the next piece. Returns the records that end in this piece. */
  push(bytes: Buffer): Buffer[] {
    const records: Buffer[] = [];
    this.#taken += bytes.length;
    let at = this.#pass(bytes.length);
    while (this.#pendingBytes > 0 && !this.#isLost) {
      const more = bytes.subarray(at, at + this.#needed - this.#pendingBytes);
      this.#pending.push(more);
      this.#pendingBytes += more.length;
      at += more.length;
      if (this.#pendingBytes < this.#needed) {
        return records;
      }
      const whole = Buffer.concat(this.#pending, this.#pendingBytes);
      this.#pending = [whole];
      this.#next(whole, 0, maskedSumsOf(whole), records);
      at += this.#pass(bytes.length - at);
    }
    const sums = maskedSumsOf(bytes);
    while (!this.#isLost && at < bytes.length) {
      const used = this.#next(bytes, at, sums, records);
      if (used === 0) {
        break;
      }
      at += used;
    }
    return records;
  }

  /** Reports damage if the file ends within a record. Must be called at the end of the file. */
  finish(): void {
    if (this.isWithinRecord && !this.#isLost) {
      const there = this.#passing > 0 ? 'its first bytes' : `${this.#pendingBytes} of ${this.#needed} bytes`;
      this.#lose(`the file ends within a record, after ${there}`);
    }
  }

  /** Parses the record at `at` and returns its length. Stores the bytes of an incomplete record and returns 0. */
  #next(bytes: Buffer, at: number, sums: (from: number, to: number) => number, records: Buffer[]): number {
    const left = bytes.length - at;
    const length = left < HEADER_BYTES ? 0 : this.#lengthAt(bytes, at, sums);
    if (length === null) {
      return 0;
    }
    const size = left < HEADER_BYTES ? HEADER_BYTES : HEADER_BYTES + length + FOOTER_BYTES;
    if (length > this.#options.maxRecordBytes) {
      return this.#passOver(length, size, left);
    }
    if (left < size) {
      if (this.#pendingBytes === 0) {
        this.#pending = [bytes.subarray(at)];
        this.#pendingBytes = left;
      }
      this.#needed = size;
      return 0;
    }
    const from = at + HEADER_BYTES;
    const to = from + length;
    if (bytes.readUInt32LE(to) === sums(from, to)) {
      records.push(bytes.subarray(from, to));
    } else {
      this.#options.onDamage(this.#damage('the checksum of the record is wrong'), 'record');
    }
    this.#done(size);
    return size;
  }

  /** Returns the length of the data in the record at `at`, or null if the length is damaged. */
  #lengthAt(bytes: Buffer, at: number, sums: (from: number, to: number) => number): number | null {
    if (bytes.readUInt32LE(at + 8) !== sums(at, at + 8)) {
      const isFirst = this.#offset === 0;
      return this.#lose(
        isFirst ? 'this is not a TFRecord file, or its first bytes are damaged' : "the checksum of a record's length is wrong",
      );
    }
    const length = bytes.readUInt32LE(at) + bytes.readUInt32LE(at + 4) * 2 ** 32;
    const isBeyond = this.#offset + HEADER_BYTES + length + FOOTER_BYTES > this.#options.end;
    if (isBeyond || !Number.isSafeInteger(length)) {
      return this.#lose(`a record of ${length} bytes extends beyond the end of the file`);
    }
    return length;
  }

  #passOver(length: number, size: number, left: number): number {
    const { maxRecordBytes, onDamage } = this.#options;
    onDamage(this.#damage(`a record has ${length} bytes; the maximum is ${maxRecordBytes} (maxRecordBytes)`), 'long');
    const used = Math.min(size, left);
    this.#passing = size - used;
    this.#done(size);
    return used;
  }

  #done(size: number): void {
    this.#offset += size;
    if (this.#pendingBytes === 0) {
      return;
    }
    this.#pending = [];
    this.#pendingBytes = 0;
    this.#needed = HEADER_BYTES;
  }

  /** Skips up to `count` bytes of a record that exceeds the maximum length. Returns the number of skipped bytes. */
  #pass(count: number): number {
    const passed = Math.min(this.#passing, count);
    this.#passing -= passed;
    return passed;
  }

  #lose(what: string): null {
    this.#isLost = true;
    this.#pending = [];
    this.#pendingBytes = 0;
    this.#passing = 0;
    this.#options.onDamage(this.#damage(what), 'rest');
    return null;
  }

  #damage(what: string): TonyError {
    return new TonyError('DATA_INVALID', `${this.#options.where}, byte ${this.#offset}: ${what}`);
  }
}
