/*
 * Thrift's compact protocol (thrift-compact-protocol.md of Apache Thrift), in which Parquet encodes its footer and its page headers:
 *
 *   struct   fields, then the byte 0. A field is a byte (difference of the field's number, type), or the type alone and the number as a
 *            zigzag varint, followed by the value. A boolean's value is its type.
 *   list     a byte (length, type), or 0xf and the type and the length as a varint, followed by the items
 *   binary   the length as a varint, followed by the bytes
 */

const [TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, STRUCT] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12] as const;
const MAX_DEPTH = 24;

/**
 * Walks through a struct without storing anything, and in time proportional to its length. The package hyparquet allocates each list with
 * the length that the file declares, so this must check the data first.
 */
export class ThriftCursor {
  readonly #bytes: Uint8Array;
  at: number;

  constructor(bytes: Uint8Array, at: number) {
    this.#bytes = bytes;
    this.at = at;
  }

  /**
   * Moves behind a struct.
   * @param visit called for each field, at its value. Returns true if it has moved the cursor behind the value.
   * @throws Error if the data is damaged.
   */
  struct(visit: (field: number, type: number) => boolean = () => false, depth = 0): void {
    let field = 0;
    for (let byte = this.byte(); byte !== 0; byte = this.byte()) {
      field = byte >> 4 === 0 ? this.integer() : field + (byte >> 4);
      const type = byte & 0xf;
      if (!visit(field, type)) {
        this.#skip(type, depth);
      }
    }
  }

  #skip(type: number, depth: number): void {
    if (depth > MAX_DEPTH) {
      throw new Error('its values are nested too deeply');
    }
    switch (type) {
      case TRUE:
      case FALSE:
        return;
      case BYTE:
        this.#move(1);
        return;
      case I16:
      case I32:
        this.#varint(5);
        return;
      case I64:
        this.#varint(10);
        return;
      case DOUBLE:
        this.#move(8);
        return;
      case BINARY:
        this.#move(this.#varint(5));
        return;
      case LIST:
        this.#skipList(depth);
        return;
      case STRUCT:
        this.struct(undefined, depth + 1);
        return;
      default:
        throw new Error(`it contains the unknown type ${type}`);
    }
  }

  #skipList(depth: number): void {
    const byte = this.byte();
    const length = byte >> 4 === 0xf ? this.#varint(5) : byte >> 4;
    if (length > this.#bytes.length - this.at) {
      throw new Error(`a list declares ${length} items, but only ${this.#bytes.length - this.at} bytes follow`);
    }
    const type = byte & 0xf;
    for (let index = 0; index < length; index++) {
      this.#skip(type === TRUE || type === FALSE ? BYTE : type, depth + 1);
    }
  }

  byte(): number {
    const byte = this.#bytes[this.at++];
    if (byte === undefined) {
      throw new Error('it ends within a value');
    }
    return byte;
  }

  /** Reads a zigzag-encoded integer of at most 32 bits. */
  integer(): number {
    const value = this.#varint(5);
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }

  #varint(mostBytes: number): number {
    let value = 0;
    for (let index = 0; index < mostBytes; index++) {
      const byte = this.byte();
      value += (byte & 0x7f) * 128 ** index;
      if (byte < 0x80) {
        if (mostBytes === 5 && value >= 2 ** 32) {
          break;
        }
        return value;
      }
    }
    throw new Error('an integer is too long');
  }

  #move(bytes: number): void {
    if (bytes > this.#bytes.length - this.at) {
      throw new Error('it ends within a value');
    }
    this.at += bytes;
  }
}
