import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createWriteStream, renameSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import * as z from 'zod';
import { TonyError } from '../../platform/errors.ts';

/*
 * A source sends a piece as frames:
 *
 *   ┌─────────┬─────────┬─────┬──────────┬─────────┬─────────┐
 *   │ uint32  │ bytes   │ ... │ uint32 0 │ uint32  │ trailer │   all lengths are big-endian
 *   │ length  │         │     │          │ length  │ JSON    │
 *   └─────────┴─────────┴─────┴──────────┴─────────┴─────────┘
 *
 * The file contains the bytes of all frames, without the lengths. The trailer proves that the piece is complete.
 */

const PREFIX_BYTES = 4;
const MAXIMUM_FRAME_BYTES = 64 * 1024 * 1024;
const MAXIMUM_TRAILER_BYTES = 1024;

const trailerSchema = z.object({ records: z.number().int().nonnegative() });

export interface ReceivedPiece {
  readonly file: string;
  readonly bytes: number;
  readonly records: number;
  /** SHA-256 of the file in hexadecimal form. */
  readonly digest: string;
}

/** The pieces that this executor has received, as files in the container's folder. */
export class ReceivedPieces {
  readonly #folder: string;
  readonly #pieces = new Map<string, ReceivedPiece>();
  #bytes = 0;
  #parts = 0;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Number of bytes in all pieces together. */
  get bytes(): number {
    return this.#bytes;
  }

  get meanBytes(): number | null {
    return this.#pieces.size === 0 ? null : this.#bytes / this.#pieces.size;
  }

  keys(): readonly string[] {
    return [...this.#pieces.keys()];
  }

  get(key: string): ReceivedPiece | undefined {
    return this.#pieces.get(key);
  }

  /**
   * Stores a piece. If another connection has already stored it, keeps the first copy.
   * @returns true if this call has stored the piece
   * @throws TonyError DATA_INVALID if the input ends early or is not in the format above
   */
  async receive(key: string, input: Readable): Promise<boolean> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const number = ++this.#parts;
    const part = path.join(this.#folder, `part-${number}`);
    try {
      const received = await writePiece(input, part);
      if (this.#pieces.has(key)) {
        return false;
      }
      // A name of its own, because an earlier file of the same piece may still be being removed.
      const file = path.join(this.#folder, `${key}.${number}`);
      // Synchronous, so that no other call can store the same piece in between.
      renameSync(part, file);
      this.#pieces.set(key, { ...received, file });
      this.#bytes += received.bytes;
      return true;
    } finally {
      await rm(part, { force: true });
    }
  }

  /** Removes a piece. A program that still reads the file is not disturbed. */
  remove(key: string): void {
    const piece = this.#pieces.get(key);
    if (piece !== undefined) {
      this.#pieces.delete(key);
      this.#bytes -= piece.bytes;
      void rm(piece.file, { force: true });
    }
  }
}

async function writePiece(input: Readable, file: string): Promise<Omit<ReceivedPiece, 'file'>> {
  const output = createWriteStream(file, { mode: 0o600, flags: 'wx', highWaterMark: 1024 * 1024 });
  // Otherwise, an error between two writes would end the executor.
  output.on('error', () => {});
  const hash = createHash('sha256');
  const frames = new FrameParser();
  let bytes = 0;
  try {
    for await (const chunk of input) {
      for (const content of frames.add(chunk as Buffer)) {
        bytes += content.length;
        hash.update(content);
        if (!output.write(content)) {
          await once(output, 'drain');
        }
      }
    }
    const { records } = frames.end();
    output.end();
    await finished(output);
    return { bytes, records, digest: hash.digest('hex') };
  } finally {
    // The caller removes the file, which must exist by then.
    output.destroy();
    if (!output.closed) {
      await once(output, 'close');
    }
  }
}

/** Splits the input into the contents of frames, without collecting a frame. */
class FrameParser {
  #left = 0;
  #small: Buffer = Buffer.alloc(0);
  #state: 'length' | 'content' | 'trailer-length' | 'trailer' = 'length';
  #trailer: Buffer | null = null;

  *add(chunk: Buffer): Generator<Buffer> {
    let rest = chunk;
    while (rest.length > 0) {
      if (this.#state === 'content') {
        const content = rest.subarray(0, this.#left);
        rest = rest.subarray(content.length);
        this.#left -= content.length;
        this.#state = this.#left === 0 ? 'length' : 'content';
        yield content;
        continue;
      }
      if (this.#trailer !== null) {
        throw invalid('bytes follow its trailer');
      }
      const expected = this.#state === 'trailer' ? this.#left : PREFIX_BYTES;
      const taken = rest.subarray(0, expected - this.#small.length);
      rest = rest.subarray(taken.length);
      this.#small = Buffer.concat([this.#small, taken]);
      if (this.#small.length === expected) {
        this.#advance(this.#small);
        this.#small = Buffer.alloc(0);
      }
    }
  }

  /** @throws TonyError DATA_INVALID if the input is incomplete */
  end(): z.infer<typeof trailerSchema> {
    if (this.#trailer === null) {
      throw invalid('it is incomplete');
    }
    try {
      return trailerSchema.parse(JSON.parse(this.#trailer.toString('utf8')));
    } catch {
      throw invalid('its trailer is invalid');
    }
  }

  #advance(small: Buffer): void {
    if (this.#state === 'trailer') {
      this.#trailer = small;
      return;
    }
    this.#left = small.readUInt32BE(0);
    if (this.#left > (this.#state === 'trailer-length' ? MAXIMUM_TRAILER_BYTES : MAXIMUM_FRAME_BYTES)) {
      throw invalid(`a frame of ${this.#left} bytes is too large`);
    }
    this.#state = this.#state === 'trailer-length' ? 'trailer' : this.#left === 0 ? 'trailer-length' : 'content';
  }
}

function invalid(reason: string): TonyError {
  return new TonyError('DATA_INVALID', `a piece of a partition was rejected: ${reason}`);
}
