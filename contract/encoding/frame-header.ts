/** A header that consists of little-endian uint32 fields: a magic number, the index of the frame kind, and further fields. */
export class FrameHeader<Kind extends string> {
  readonly bytes: number;
  readonly #magic: number;
  readonly #kinds: readonly Kind[];

  /**
   * @param magic four ASCII characters.
   * @param fields the number of further fields.
   */
  constructor(magic: string, kinds: readonly Kind[], fields: number) {
    this.#magic = Buffer.from(magic, 'latin1').readUInt32LE(0);
    this.#kinds = kinds;
    this.bytes = (2 + fields) * 4;
  }

  /** @throws RangeError if a field does not fit in a uint32. */
  encode(kind: Kind, ...fields: readonly number[]): Buffer {
    const bytes = Buffer.alloc(this.bytes);
    [this.#magic, this.#kinds.indexOf(kind), ...fields].forEach((field, index) => {
      bytes.writeUInt32LE(field, index * 4);
    });
    return bytes;
  }

  /** Returns the kind and the further fields, or null if `bytes` does not begin with such a header. */
  decode(bytes: Uint8Array): { readonly kind: Kind; readonly fields: readonly number[] } | null {
    const view = new DataView(bytes.buffer, bytes.byteOffset, this.bytes);
    const [magic, kindNumber = -1, ...fields] = Array.from({ length: this.bytes / 4 }, (_, index) => view.getUint32(index * 4, true));
    const kind = this.#kinds[kindNumber];
    return magic !== this.#magic || kind === undefined ? null : { kind, fields };
  }
}
