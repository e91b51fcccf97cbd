import { TonyError } from '../../platform/errors.ts';

/**
 * Reads the protobuf wire format (protobuf.dev/programming-guides/encoding). Checks every length before using it. Callers use the same
 * reader for nested messages, because creating a reader for each message would cost more than reading the message.
 */
export class WireReader {
  #bytes: Uint8Array = new Uint8Array(0);
  #at = 0;
  #end = 0;

  get bytes(): Uint8Array {
    return this.#bytes;
  }

  get at(): number {
    return this.#at;
  }

  get end(): number {
    return this.#end;
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#end;
  }

  reset(bytes: Uint8Array, at = 0, end = bytes.length): this {
    this.#bytes = bytes;
    this.#at = at;
    this.#end = end;
    return this;
  }

  /** Reads a tag or a length, which is a varint of up to 7 bytes. */
  size(): number {
    const bytes = this.#bytes;
    if (this.#at < this.#end) {
      const first = bytes[this.#at] as number;
      if (first < 0x80) {
        this.#at++;
        return first;
      }
    }
    let value = 0;
    let factor = 1;
    for (let count = 0; count < 7; count++) {
      if (this.#at >= this.#end) {
        throw broken('ends within a number');
      }
      const byte = bytes[this.#at++] as number;
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) {
        return value;
      }
      factor *= 128;
    }
    throw broken('has an unterminated length');
  }

  /** Reads a varint of up to 64 bits. Returns its lower 32 bits as an unsigned integer and its upper 32 bits as a signed integer. */
  varint(): { readonly low: number; readonly high: number } {
    let low = 0;
    let high = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      if (this.#at >= this.#end) {
        throw broken('ends within a number');
      }
      const byte = this.#bytes[this.#at++] as number;
      const bits = byte & 0x7f;
      if (shift < 28) {
        low |= bits << shift;
      } else if (shift === 28) {
        low |= bits << 28;
        high |= bits >>> 4;
      } else {
        high |= bits << (shift - 32);
      }
      if (byte < 0x80) {
        return { low: low >>> 0, high };
      }
    }
    throw broken('has a number of more than 64 bits');
  }

  /**
   * Enters the nested message or packed field at the current position. Returns a value that the caller must pass to `leave` after reading
   * the message or field.
   */
  enter(): number {
    const outerEnd = this.#end;
    const length = this.size();
    if (length > outerEnd - this.#at) {
      throw broken('has a field that extends beyond its end');
    }
    this.#end = this.#at + length;
    return outerEnd;
  }

  leave(outerEnd: number): void {
    this.#at = this.#end;
    this.#end = outerEnd;
  }

  /** Skips `count` bytes. Returns the offset of the first skipped byte. */
  take(count: number): number {
    if (count > this.#end - this.#at) {
      throw broken('ends within a number');
    }
    this.#at += count;
    return this.#at - count;
  }

  skip(wireType: number): void {
    if (wireType === 0) {
      this.varint();
    } else if (wireType === 2) {
      this.leave(this.enter());
    } else if (wireType === 1 || wireType === 5) {
      this.take(wireType === 1 ? 8 : 4);
    } else {
      throw broken(`has a field of wire type ${wireType}`);
    }
  }
}

export function broken(what: string): TonyError {
  return new TonyError('DATA_INVALID', `the message ${what}`);
}

export interface Field {
  readonly number: number;
  /** Wire type: 0 for a varint, 1 for eight bytes, 2 for bytes preceded by their length, 5 for four bytes. */
  readonly type: number;
  /** Value of a field with wire type 1, 2 or 5, as a view of the message. Empty for a varint. */
  readonly bytes: Buffer;
  /** Value of a field with wire type 0, as an int64. Values of more than 53 bits are rounded. */
  readonly varint: number;
}

const NONE = Buffer.alloc(0);

/**
 * Yields the fields of a message in order. Creates an object for each field, so for many messages, WireReader is faster.
 * @throws TonyError DATA_INVALID if the bytes are not a protobuf message.
 */
export function* fieldsOf(message: Buffer): Generator<Field, void> {
  const reader = new WireReader().reset(message);
  while (!reader.isAtEnd) {
    const tag = reader.size();
    const [number, type] = [Math.floor(tag / 8), tag % 8];
    if (number === 0) {
      throw broken('has a field without a number');
    }
    if (type === 0) {
      const { low, high } = reader.varint();
      yield { number, type, bytes: NONE, varint: high * 2 ** 32 + low };
      continue;
    }
    const outerEnd = type === 2 ? reader.enter() : null;
    const from = reader.at;
    if (outerEnd === null) {
      reader.skip(type);
    }
    const bytes = message.subarray(from, outerEnd === null ? reader.at : reader.end);
    if (outerEnd !== null) {
      reader.leave(outerEnd);
    }
    yield { number, type, bytes, varint: 0 };
  }
}
