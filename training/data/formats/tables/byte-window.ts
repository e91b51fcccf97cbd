/** The next bytes of a stream, for a parser. Contains only bytes that the parser has requested but not yet taken. */
export class ByteWindow {
  readonly #pieces: AsyncIterator<Buffer>;
  #bytes: Buffer = Buffer.alloc(0);
  /** Offset of the window's first byte in the file. */
  #offset: number;

  constructor(pieces: AsyncIterable<Buffer>, offset: number) {
    this.#pieces = pieces[Symbol.asyncIterator]();
    this.#offset = offset;
  }

  get offset(): number {
    return this.#offset;
  }

  get bytes(): Buffer {
    return this.#bytes;
  }

  /** Reads until the window contains `length` bytes. Returns false if the stream ends first. */
  async fill(length: number): Promise<boolean> {
    const pieces = [this.#bytes];
    let present = this.#bytes.length;
    while (present < length) {
      const { done, value } = await this.#pieces.next();
      if (done) {
        break;
      }
      pieces.push(value);
      present += value.length;
    }
    this.#bytes = pieces.length === 1 ? this.#bytes : Buffer.concat(pieces, present);
    return present >= length;
  }

  /** Removes the first `length` bytes from the window and returns them. */
  take(length: number): Buffer {
    const taken = this.#bytes.subarray(0, length);
    this.#bytes = this.#bytes.subarray(length);
    this.#offset += length;
    return taken;
  }

  async close(): Promise<void> {
    await this.#pieces.return?.();
  }
}
