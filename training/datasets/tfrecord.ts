import { TonyError } from '../../conf/errors.ts';
import { maskedCrc32c } from '../crc32c.ts';
import { FOOTER_BYTES, HEADER_BYTES, sealRecord } from '../tfrecord-frame.ts';

/**
 * TFRecord files: one record (tfrecord-frame.ts) after the other.
 *
 * There is nothing to find the next record by when a length is damaged, nor where one begins in the middle of a file: files are read from
 * their beginning, or from a place where a record is known to begin. A whole file may be gzip or zlib compressed.
 */
export function encodeTfRecord(data: Uint8Array): Buffer {
  const record = Buffer.allocUnsafe(HEADER_BYTES + data.length + FOOTER_BYTES);
  record.set(data, HEADER_BYTES);
  return sealRecord(record);
}

export interface TfRecordParserOptions {
  /** For messages. */
  readonly where: string;
  /** Of the first byte, in the file or in what it unpacks to. */
  readonly offset: number;
  /** Where the file ends; Infinity when that is not known before. */
  readonly end: number;
  readonly maxRecordBytes: number;
  /** Throws, or takes note and lets the record be skipped. */
  readonly onDamage: (damage: TonyError) => void;
}

/** Finds the records in bytes as they come. Records are views of these bytes where they lie within one piece. */
export class TfRecordParser {
  readonly #options: TfRecordParserOptions;
  /** The beginning of a record that goes on in the next piece. */
  #pending: Buffer[] = [];
  #pendingBytes = 0;
  /** What has to be there for the next look at the pending bytes. */
  #needed = HEADER_BYTES;
  #offset: number;
  #isLost = false;

  constructor(options: TfRecordParserOptions) {
    this.#options = options;
    this.#offset = options.offset;
  }

  /** Where the first record begins that was not returned yet. */
  get offset(): number {
    return this.#offset;
  }

  /** A length was damaged: nothing behind it can be found. */
  get isLost(): boolean {
    return this.#isLost;
  }

  push(bytes: Buffer): Buffer[] {
    const records: Buffer[] = [];
    let at = 0;
    while (this.#pendingBytes > 0 && !this.#isLost) {
      const taken = bytes.subarray(at, at + this.#needed - this.#pendingBytes);
      this.#pending.push(taken);
      this.#pendingBytes += taken.length;
      at += taken.length;
      if (this.#pendingBytes < this.#needed) return records;
      const whole = Buffer.concat(this.#pending, this.#pendingBytes);
      this.#pending = [whole];
      this.#next(whole, 0, records);
    }
    while (!this.#isLost && at < bytes.length) {
      const used = this.#next(bytes, at, records);
      if (used === 0) break;
      at += used;
    }
    return records;
  }

  /** Says whether the file ends within a record. */
  finish(): void {
    if (this.#pendingBytes > 0 && !this.#isLost) {
      this.#lose(`the file ends within a record: ${this.#pendingBytes} of ${this.#needed} bytes are there`);
    }
  }

  /** The record at `at`, if it is all there: its length in the file. Otherwise 0, and what is there is kept. */
  #next(bytes: Buffer, at: number, records: Buffer[]): number {
    const left = bytes.length - at;
    const size = left < HEADER_BYTES ? HEADER_BYTES : this.#sizeOf(bytes, at);
    if (size === null) return 0;
    if (left < size) {
      if (this.#pendingBytes === 0) {
        this.#pending = [bytes.subarray(at)];
        this.#pendingBytes = left;
      }
      this.#needed = size;
      return 0;
    }
    const [from, to] = [at + HEADER_BYTES, at + size - FOOTER_BYTES];
    if (bytes.readUInt32LE(to) === maskedCrc32c(bytes, from, to)) records.push(bytes.subarray(from, to));
    else this.#options.onDamage(this.#damage('the checksum of the record is wrong'));
    this.#pending = [];
    this.#pendingBytes = 0;
    this.#offset += size;
    return size;
  }

  /** Of the whole record whose header is at `at`; null when it cannot be right. */
  #sizeOf(bytes: Buffer, at: number): number | null {
    if (bytes.readUInt32LE(at + 8) !== maskedCrc32c(bytes, at, at + 8)) {
      const isFirst = this.#offset === 0;
      return this.#lose(
        isFirst ? 'this is no TFRecord file, or its first bytes are damaged' : "the checksum of a record's length is wrong",
      );
    }
    const length = bytes.readUInt32LE(at) + bytes.readUInt32LE(at + 4) * 2 ** 32;
    const size = HEADER_BYTES + length + FOOTER_BYTES;
    if (this.#offset + size > this.#options.end) return this.#lose(`a record of ${length} bytes goes beyond the end of the file`);
    if (length > this.#options.maxRecordBytes) {
      return this.#lose(`a record has ${length} bytes; ${this.#options.maxRecordBytes} are allowed (maxRecordBytes)`);
    }
    return size;
  }

  #lose(what: string): null {
    this.#isLost = true;
    this.#pending = [];
    this.#options.onDamage(this.#damage(what));
    return null;
  }

  #damage(what: string): TonyError {
    return new TonyError('DATA_INVALID', `${this.#options.where}, byte ${this.#offset}: ${what}`);
  }
}
