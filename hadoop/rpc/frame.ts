import { Buffer } from 'node:buffer';

/*
 * Client and server send Hadoop IPC frames:
 *
 *   int32 BE   length of the rest of the frame
 *   messages   each with its length as a varint prefix
 */
const LENGTH_BYTES = 4;
const CRUMB_BYTES = 16_384;

/** Value that a server sends instead of a length if it does not support the client's protocol version. */
const OLD_REFUSAL = -1;

export function encodeFrame(...messages: readonly Uint8Array[]): Buffer {
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeInt32BE(messages.reduce((sum, message) => sum + message.length, 0));
  return Buffer.concat([length, ...messages]);
}

/**
 * Splits a byte stream into frames. Rejects an invalid length as soon as its four bytes have arrived, and allocates memory only for
 * received bytes.
 */
export class FrameReader {
  readonly #maxBytes: number;
  #chunks: Buffer[] = [];
  #buffered = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** The number of received bytes that do not form a complete frame yet. */
  get pending(): number {
    return this.#buffered;
  }

  /**
   * Adds received bytes, and returns the frames that are now complete, without their length prefixes. Throws an Error for an invalid
   * length; the reader is then unusable.
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

  /** Merges small chunks, because each Buffer object has a memory overhead. */
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
      throw new Error('the server speaks HTTP, so this is not an RPC port');
    }
    if (length === OLD_REFUSAL) {
      throw new Error('the server does not speak version 9 of the protocol');
    }
    if (length < 0 || length > this.#maxBytes) {
      throw new Error(`a frame of ${length} bytes exceeds the maximum of ${this.#maxBytes}`);
    }
    return length;
  }

  #joined(): Buffer {
    const all = this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks, this.#buffered);
    this.#chunks = [all];
    return all;
  }
}
