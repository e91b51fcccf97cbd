/** Reads numbers and strings in Java key store formats. Throws a RangeError if the bytes end early. */
export class BigEndianReader {
  readonly #from: Buffer;
  #at = 0;

  constructor(from: Buffer) {
    this.#from = from;
  }

  get at(): number {
    return this.#at;
  }

  u8(): number {
    return this.take(1).readUInt8(0);
  }

  u16(): number {
    return this.take(2).readUInt16BE(0);
  }

  u32(): number {
    return this.take(4).readUInt32BE(0);
  }

  text(): string {
    return this.take(this.u16()).toString('utf8');
  }

  bytes(): Buffer {
    return this.take(this.u32());
  }

  skip(length: number): void {
    this.take(length);
  }

  der(tag: number): Buffer {
    const [found, short] = this.take(2);
    if (found !== tag || short === undefined) {
      throw new RangeError(`expected the ASN.1 tag ${tag}, found ${found}`);
    }
    const more = short & 0x7f;
    if (short < 0x80) {
      return this.take(short);
    }
    if (more < 1 || more > 4) {
      throw new RangeError(`an ASN.1 length has ${more} bytes`);
    }
    return this.take(this.take(more).readUIntBE(0, more));
  }

  take(length: number): Buffer {
    const end = this.#at + length;
    if (end > this.#from.length) {
      throw new RangeError('it ends too early');
    }
    const part = this.#from.subarray(this.#at, end);
    this.#at = end;
    return part;
  }
}
