import { TonyError } from '../conf/errors.ts';
import { maskedSumsOf } from './crc32c.ts';
import { FOOTER_BYTES, HEADER_BYTES, sealRecord } from './tfrecord-frame.ts';

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

/**
 * `record`: the data of one record. `long`: one that is longer than it may be; it is passed over. `rest`: nothing behind it can be found, for the
 * length of a record is damaged or the file ends within one.
 */
export type DamageKind = 'record' | 'long' | 'rest';

export interface TfRecordParserOptions {
  /** For messages. */
  readonly where: string;
  /** Of the first byte, in the file or in what it unpacks to. */
  readonly offset: number;
  /** Where the file ends; Infinity when that is not known before. */
  readonly end: number;
  /** Checked before memory is taken. */
  readonly maxRecordBytes: number;
  /** Throws, or takes note: then what is damaged is left out. */
  readonly onDamage: (damage: TonyError, kind: DamageKind) => void;
}

/** Finds the records in bytes as they come. Records are views of these bytes where they lie within one piece. */
export class TfRecordParser {
  readonly #options: TfRecordParserOptions;
  /** The beginning of a record that goes on in the next piece. */
  #pending: Buffer[] = [];
  #pendingBytes = 0;
  /** What has to be there for the next look at the pending bytes. */
  #needed = HEADER_BYTES;
  /** Bytes of a record that is too long: they are not looked at. */
  #passing = 0;
  #offset: number;
  #taken: number;
  #isLost = false;

  constructor(options: TfRecordParserOptions) {
    this.#options = options;
    this.#offset = options.offset;
    this.#taken = options.offset;
  }

  /** Where the first record begins that was not returned yet. */
  get offset(): number {
    return this.#offset;
  }

  /** As far as bytes were given: where the next piece begins. */
  get taken(): number {
    return this.#taken;
  }

  /** A length was damaged: nothing behind it can be found. */
  get isLost(): boolean {
    return this.#isLost;
  }

  /** What was given so far ends within a record. */
  get isWithinRecord(): boolean {
    return this.#pendingBytes > 0 || this.#passing > 0;
  }

  /** @returns the records that are whole with this piece. */
  push(bytes: Buffer): Buffer[] {
    const records: Buffer[] = [];
    this.#taken += bytes.length;
    let at = this.#pass(bytes.length);
    while (this.#pendingBytes > 0 && !this.#isLost) {
      const more = bytes.subarray(at, at + this.#needed - this.#pendingBytes);
      this.#pending.push(more);
      this.#pendingBytes += more.length;
      at += more.length;
      if (this.#pendingBytes < this.#needed) return records;
      const whole = Buffer.concat(this.#pending, this.#pendingBytes);
      this.#pending = [whole];
      this.#next(whole, 0, maskedSumsOf(whole), records);
      at += this.#pass(bytes.length - at);
    }
    const sums = maskedSumsOf(bytes);
    while (!this.#isLost && at < bytes.length) {
      const used = this.#next(bytes, at, sums, records);
      if (used === 0) break;
      at += used;
    }
    return records;
  }

  /** Says whether the file ends within a record. */
  finish(): void {
    if (this.isWithinRecord && !this.#isLost) {
      const there = this.#passing > 0 ? 'its first bytes' : `${this.#pendingBytes} of ${this.#needed} bytes`;
      this.#lose(`the file ends within a record: ${there} are there`);
    }
  }

  /** The record at `at`, if it is all there: how many bytes are done with. Otherwise 0, and what is there is kept. */
  #next(bytes: Buffer, at: number, sums: (from: number, to: number) => number, records: Buffer[]): number {
    const left = bytes.length - at;
    const length = left < HEADER_BYTES ? 0 : this.#lengthAt(bytes, at, sums);
    if (length === null) return 0;
    const size = left < HEADER_BYTES ? HEADER_BYTES : HEADER_BYTES + length + FOOTER_BYTES;
    if (length > this.#options.maxRecordBytes) return this.#passOver(length, size, left);
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
    if (bytes.readUInt32LE(to) === sums(from, to)) records.push(bytes.subarray(from, to));
    else this.#options.onDamage(this.#damage('the checksum of the record is wrong'), 'record');
    this.#done(size);
    return size;
  }

  /** Of the data of the record whose header is at `at`; null when it cannot be right. */
  #lengthAt(bytes: Buffer, at: number, sums: (from: number, to: number) => number): number | null {
    if (bytes.readUInt32LE(at + 8) !== sums(at, at + 8)) {
      const isFirst = this.#offset === 0;
      return this.#lose(
        isFirst ? 'this is no TFRecord file, or its first bytes are damaged' : "the checksum of a record's length is wrong",
      );
    }
    const length = bytes.readUInt32LE(at) + bytes.readUInt32LE(at + 4) * 2 ** 32;
    const isBeyond = this.#offset + HEADER_BYTES + length + FOOTER_BYTES > this.#options.end;
    if (isBeyond || !Number.isSafeInteger(length)) return this.#lose(`a record of ${length} bytes goes beyond the end of the file`);
    return length;
  }

  #passOver(length: number, size: number, left: number): number {
    const { maxRecordBytes, onDamage } = this.#options;
    onDamage(this.#damage(`a record has ${length} bytes; ${maxRecordBytes} are allowed (maxRecordBytes)`), 'long');
    const used = Math.min(size, left);
    this.#passing = size - used;
    this.#done(size);
    return used;
  }

  #done(size: number): void {
    this.#offset += size;
    if (this.#pendingBytes === 0) return;
    this.#pending = [];
    this.#pendingBytes = 0;
    this.#needed = HEADER_BYTES;
  }

  /** How many of so many bytes belong to a record that is passed over. */
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
