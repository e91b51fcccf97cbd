import { Buffer } from 'node:buffer';

/*
 * Hadoop IPC frames, in both directions:
 *
 *   int32 BE   length of the rest of the frame
 *   messages   each prefixed with its length as a varint
 */
const LENGTH_BYTES = 4;
const CRUMB_BYTES = 16_384;

/** A server sends this value instead of a length when it rejects a client that is older than version 9. */
const OLD_REFUSAL = -1;

export function encodeFrame(...messages: readonly Uint8Array[]): Buffer {
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeInt32BE(messages.reduce((sum, message) => sum + message.length, 0));
  return Buffer.concat([length, ...messages]);
}

/**
 * Splits a byte stream into frames. It checks a length as soon as the length is complete, and allocates memory only for bytes that have
 * arrived.
 */
export class FrameReader {
  readonly #maxBytes: number;
  #chunks: Buffer[] = [];
  #buffered = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** The number of buffered bytes of an incomplete frame. */
  get pending(): number {
    return this.#buffered;
  }

  /**
   * Returns the frames that these bytes complete, without their lengths. Throws an Error for an invalid length; the reader is unusable
   * afterwards.
   */
  push(chunk: Buffer): Buffer[] {
    this.#chunks.push(chunk);
    this.#buffered += chunk.length;
    this.#mergeSmallChunks();
    const frames: Buffer[] = [];
    while (this.#buffered >= LENGTH_BYTES) {
      const length = this.#length();
      if (this.#buffered - LENGTH_BYTES < length) {
        break;
      }
      const all = this.#joined();
      frames.push(all.subarray(LENGTH_BYTES, LENGTH_BYTES + length));
      const rest = all.subarray(LENGTH_BYTES + length);
      this.#chunks = rest.length === 0 ? [] : [rest];
      this.#buffered = rest.length;
    }
    return frames;
  }

  /** Merges small adjacent chunks, which would occupy more memory than their bytes. Each byte is copied only a few times. */
  #mergeSmallChunks(): void {
    for (;;) {
      const last = this.#chunks.at(-1);
      const before = this.#chunks.at(-2);
      if (last === undefined || before === undefined || before.length > CRUMB_BYTES || before.length > last.length) {
        return;
      }
      this.#chunks.splice(-2, 2, Buffer.concat([before, last]));
    }
  }

  #length(): number {
    if ((this.#chunks[0]?.length ?? 0) < LENGTH_BYTES) {
      this.#joined();
    }
    const head = (this.#chunks[0] as Buffer).subarray(0, LENGTH_BYTES);
    const length = head.readInt32BE();
    if (head.toString('latin1') === 'HTTP') {
      throw new Error('it speaks HTTP, so this is not an RPC port');
    }
    if (length === OLD_REFUSAL) {
      throw new Error('it does not speak version 9 of the protocol');
    }
    if (length < 0 || length > this.#maxBytes) {
      throw new Error(`it announced a frame of ${length} bytes, more than ${this.#maxBytes}`);
    }
    return length;
  }

  #joined(): Buffer {
    const all = this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks, this.#buffered);
    this.#chunks = [all];
    return all;
  }
}
