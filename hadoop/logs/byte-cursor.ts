import type { Readable } from 'node:stream';

/** Reads a byte stream sequentially, in pieces of any size. */
export class ByteCursor {
  readonly #source: Readable;
  readonly #chunks: AsyncIterator<Uint8Array>;
  #rest: Uint8Array = new Uint8Array(0);
  #position = 0;

  constructor(source: Readable) {
    this.#source = source;
    this.#chunks = source[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>;
  }

  /** Number of bytes read or skipped so far. */
  get position(): number {
    return this.#position;
  }

  async isAtEnd(): Promise<boolean> {
    return !(await this.#fill());
  }

  /**
   * Returns a copy of the next `length` bytes. Throws if the stream ends early. Callers must limit `length`, because the method allocates
   * the whole buffer before it reads.
   */
  async take(length: number): Promise<Buffer> {
    const bytes = Buffer.allocUnsafe(length);
    let filled = 0;
    await this.#advance(length, (part) => {
      bytes.set(part, filled);
      filled += part.length;
    });
    return bytes;
  }

  async skip(length: number): Promise<void> {
    await this.#advance(length, () => undefined);
  }

  /** Returns true if the next bytes are `prefix`. Does not consume them. */
  async startsWith(prefix: Buffer): Promise<boolean> {
    while (this.#rest.length < prefix.length) {
      const next = await this.#chunks.next();
      if (next.done) {
        return false;
      }
      this.#rest = Buffer.concat([this.#rest, next.value]);
    }
    return prefix.equals(this.#rest.subarray(0, prefix.length));
  }

  /** Returns the bytes up to the end of the first `marker`. Throws if there is no marker within `maximum` bytes. */
  async takeThrough(marker: Buffer, maximum: number): Promise<Buffer> {
    let taken = Buffer.alloc(0);
    for (;;) {
      if (!(await this.#fill())) {
        throw new RangeError(`the data ends before ${JSON.stringify(marker.toString())}`);
      }
      const joined = Buffer.concat([taken, this.#rest]);
      const found = joined.indexOf(marker);
      const length = found < 0 ? joined.length : found + marker.length;
      if (length > maximum) {
        throw new RangeError(`no ${JSON.stringify(marker.toString())} within ${maximum} bytes`);
      }
      await this.skip(length - taken.length);
      taken = joined.subarray(0, length);
      if (found >= 0) {
        return taken;
      }
    }
  }

  /** Returns the rest of the stream. Throws if the rest is larger than `maximum` bytes. */
  async takeRest(maximum: number): Promise<Buffer> {
    const parts: Buffer[] = [];
    for (let size = 0; await this.#fill(); ) {
      size += this.#rest.length;
      if (size > maximum) {
        throw new RangeError(`more than ${maximum} bytes are left`);
      }
      parts.push(await this.take(this.#rest.length));
    }
    return Buffer.concat(parts);
  }

  close(): void {
    this.#source.destroy();
  }

  async #advance(length: number, visit: (part: Uint8Array) => void): Promise<void> {
    for (let left = length; left > 0; ) {
      if (!(await this.#fill())) {
        throw new RangeError(`the data ends ${left} bytes too early`);
      }
      const part = this.#rest.subarray(0, left);
      visit(part);
      this.#rest = this.#rest.subarray(part.length);
      this.#position += part.length;
      left -= part.length;
    }
  }

  async #fill(): Promise<boolean> {
    while (this.#rest.length === 0) {
      const next = await this.#chunks.next();
      if (next.done) {
        return false;
      }
      this.#rest = next.value;
    }
    return true;
  }
}
