import { Buffer } from 'node:buffer';

/*
 * Hadoop IPC frames, both ways:
 *
 *   int32 BE   length of what follows
 *   messages   each with its length as a varint in front
 */
const LENGTH_BYTES = 4;
const CRUMB_BYTES = 16_384;

/** A server that refuses a client older than version 9 answers a frame of this "length" instead. */
const OLD_REFUSAL = -1;

export function encodeFrame(...messages: readonly Uint8Array[]): Buffer {
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeInt32BE(messages.reduce((sum, message) => sum + message.length, 0));
  return Buffer.concat([length, ...messages]);
}

/** Cuts a stream of bytes into frames. A length is judged as soon as it is known; memory is taken only for bytes that have arrived. */
export class FrameReader {
  readonly #maxBytes: number;
  #chunks: Buffer[] = [];
  #buffered = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Bytes of a frame that has not ended yet. */
  get pending(): number {
    return this.#buffered;
  }

  /** The frames that these bytes complete, without their lengths. Throws an Error with a sentence; nothing can be read after that. */
  push(chunk: Buffer): Buffer[] {
    this.#chunks.push(chunk);
    this.#buffered += chunk.length;
    this.#gatherCrumbs();
    const frames: Buffer[] = [];
    while (this.#buffered >= LENGTH_BYTES) {
      const length = this.#length();
      if (this.#buffered - LENGTH_BYTES < length) break;
      const all = this.#joined();
      frames.push(all.subarray(LENGTH_BYTES, LENGTH_BYTES + length));
      const rest = all.subarray(LENGTH_BYTES + length);
      this.#chunks = rest.length === 0 ? [] : [rest];
      this.#buffered = rest.length;
    }
    return frames;
  }

  /** Many small pieces keep more memory than their bytes: neighbours are put together, each byte a few times at the most. */
  #gatherCrumbs(): void {
    for (;;) {
      const last = this.#chunks.at(-1);
      const before = this.#chunks.at(-2);
      if (last === undefined || before === undefined || before.length > CRUMB_BYTES || before.length > last.length) return;
      this.#chunks.splice(-2, 2, Buffer.concat([before, last]));
    }
  }

  #length(): number {
    if ((this.#chunks[0]?.length ?? 0) < LENGTH_BYTES) this.#joined();
    const head = (this.#chunks[0] as Buffer).subarray(0, LENGTH_BYTES);
    const length = head.readInt32BE();
    if (head.toString('latin1') === 'HTTP') throw new Error('it speaks HTTP: this is no RPC port');
    if (length === OLD_REFUSAL) throw new Error('it does not speak version 9 of the protocol');
    if (length < 0 || length > this.#maxBytes) throw new Error(`it announced a frame of ${length} bytes, more than ${this.#maxBytes}`);
    return length;
  }

  #joined(): Buffer {
    const all = this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks, this.#buffered);
    this.#chunks = [all];
    return all;
  }
}
