import { maskedCrc32c } from '../../training/crc32c.ts';
import { FOOTER_BYTES, HEADER_BYTES } from '../../training/tfrecord-frame.ts';

/** A record that is longer holds pictures or graphs, no curves: it is passed over without being held. */
export const MAXIMUM_RECORD_BYTES = 1024 * 1024;

/**
 * The records of a TFRecord file (training/tfrecord-frame.ts), given piece by piece as they were read. A file that is being written may end
 * anywhere: what is there of its last record is held until the rest comes.
 */
export class RecordFile {
  #held: Buffer = Buffer.alloc(0);
  /** Bytes that are not looked at. */
  #passing = 0;
  #offset = 0;
  #isBroken = false;
  /** Records whose data were damaged, and records that were too long. */
  damaged = 0;
  tooLong = 0;

  /** Of the file, as far as it has been taken in: where to read on. */
  get offset(): number {
    return this.#offset;
  }

  /** The length of a record was damaged: nobody knows where the next one begins. */
  get isBroken(): boolean {
    return this.#isBroken;
  }

  /** The file ends within a record. */
  get isCut(): boolean {
    return this.#held.length > 0 || this.#passing > 0;
  }

  /** Data of the records that are whole with this piece. They are parts of the piece: use them before it is changed. */
  *take(piece: Buffer): Generator<Buffer> {
    this.#offset += piece.length;
    if (this.#isBroken) return;
    const passed = Math.min(this.#passing, piece.length);
    this.#passing -= passed;
    const data = this.#held.length === 0 ? piece.subarray(passed) : Buffer.concat([this.#held, piece.subarray(passed)]);
    let at = 0;
    while (data.length - at >= HEADER_BYTES) {
      const length = this.#lengthAt(data, at);
      if (length === null) {
        this.#isBroken = true;
        this.#held = Buffer.alloc(0);
        return;
      }
      const whole = HEADER_BYTES + length + FOOTER_BYTES;
      if (length > MAXIMUM_RECORD_BYTES) {
        this.tooLong++;
        const there = Math.min(whole, data.length - at);
        this.#passing = whole - there;
        at += there;
        continue;
      }
      if (data.length - at < whole) break;
      const content = data.subarray(at + HEADER_BYTES, at + HEADER_BYTES + length);
      if (maskedCrc32c(content) === data.readUInt32LE(at + HEADER_BYTES + length)) yield content;
      else this.damaged++;
      at += whole;
    }
    // A copy: the piece is the reader's to use again.
    this.#held = Buffer.from(data.subarray(at));
  }

  #lengthAt(data: Buffer, at: number): number | null {
    if (maskedCrc32c(data.subarray(at, at + 8)) !== data.readUInt32LE(at + 8)) return null;
    const length = data.readBigUInt64LE(at);
    return length > BigInt(Number.MAX_SAFE_INTEGER) ? null : Number(length);
  }
}
