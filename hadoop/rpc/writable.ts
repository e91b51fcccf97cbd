import { Buffer } from 'node:buffer';

/*
 * Hadoop's Writable encoding (org.apache.hadoop.io.WritableUtils).
 *
 *   VInt   first byte b, signed:  -112..127   the value itself
 *                                 -113..-120  positive, -(b+112) bytes follow, big-endian
 *                                 -121..-128  negative, -(b+120) bytes follow, big-endian, of the value's complement
 *   Text   VInt length in bytes, UTF-8
 *   Bytes  VInt length, raw
 */

/** Reads Writables from a buffer. Throws a RangeError if the buffer ends early or a value is invalid. */
export class WritableReader {
  readonly #bytes: Buffer;
  #offset = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  get remaining(): number {
    return this.#bytes.length - this.#offset;
  }

  /** Reads a VInt. Throws for numbers that exceed 32 bits, because Hadoop uses a VInt only for lengths and counts. */
  vInt(): number {
    const value = this.vLong();
    if (value > 0x7fffffff || value < -0x80000000) {
      throw new RangeError('a number does not fit into 32 bits');
    }
    return value;
  }

  /** Reads a VLong. Throws for numbers that JavaScript cannot represent exactly. */
  vLong(): number {
    const first = this.#take(1).readInt8();
    if (first >= -112) {
      return first;
    }
    const negative = first < -120;
    const size = negative ? -(first + 120) : -(first + 112);
    let value = 0;
    for (const byte of this.#take(size)) {
      value = value * 256 + byte;
    }
    if (value >= Number.MAX_SAFE_INTEGER) {
      throw new RangeError('a number does not fit into 53 bits');
    }
    return negative ? -value - 1 : value;
  }

  bytes(): Buffer {
    return Buffer.from(this.#take(this.#length()));
  }

  text(): string {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(this.#take(this.#length()));
  }

  /**
   * Reads an element count. To protect against damaged data, throws if that many elements, of at least `least` bytes each, would not fit in
   * the rest of the buffer.
   */
  count(least: number): number {
    const count = this.vInt();
    if (count < 0 || count * least > this.remaining) {
      throw new RangeError(`a count of ${count} is impossible`);
    }
    return count;
  }

  #length(): number {
    const length = this.vInt();
    if (length < 0) {
      throw new RangeError(`a length of ${length} is impossible`);
    }
    return length;
  }

  #take(length: number): Buffer {
    if (length > this.remaining) {
      throw new RangeError(`${length} bytes are expected, but only ${this.remaining} are left`);
    }
    const taken = this.#bytes.subarray(this.#offset, this.#offset + length);
    this.#offset += length;
    return taken;
  }
}

export function writeVInt(value: number): Buffer {
  if (value >= -112 && value <= 127) {
    return Buffer.from([value & 0xff]);
  }
  let rest = value < 0 ? -value - 1 : value;
  const magnitude: number[] = [];
  for (; rest > 0; rest = Math.floor(rest / 256)) {
    magnitude.unshift(rest % 256);
  }
  return Buffer.from([(value < 0 ? -120 : -112) - magnitude.length + 256, ...magnitude]);
}

export function writeBytes(value: Uint8Array): Buffer {
  return Buffer.concat([writeVInt(value.length), value]);
}

export function writeText(value: string): Buffer {
  return writeBytes(Buffer.from(value, 'utf8'));
}
