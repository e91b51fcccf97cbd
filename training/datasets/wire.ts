import { TonyError } from '../../conf/errors.ts';

/** Reads protobuf's encoding (protobuf.dev/programming-guides/encoding), as protobuf.ts writes it. Every length is checked before it is used. */
export class WireReader {
  readonly bytes: Uint8Array;
  at: number;
  readonly end: number;

  constructor(bytes: Uint8Array, at = 0, end = bytes.length) {
    this.bytes = bytes;
    this.at = at;
    this.end = end;
  }

  get isAtEnd(): boolean {
    return this.at >= this.end;
  }

  /** A number below 2^53: tags and lengths. */
  size(): number {
    let value = 0;
    let factor = 1;
    for (let count = 0; count < 8; count++) {
      if (this.at >= this.end) throw broken('ends within a number');
      const byte = this.bytes[this.at++] as number;
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
      factor *= 128;
    }
    throw broken('has a length without end');
  }

  /** A varint of up to 64 bits as its two halves, `high` with its sign. */
  varint(): { readonly low: number; readonly high: number } {
    let low = 0;
    let high = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      if (this.at >= this.end) throw broken('ends within a number');
      const byte = this.bytes[this.at++] as number;
      const bits = byte & 0x7f;
      if (shift < 28) low |= bits << shift;
      else if (shift === 28) {
        low |= bits << 28;
        high |= bits >>> 4;
      } else high |= bits << (shift - 32);
      if (byte < 0x80) return { low: low >>> 0, high };
    }
    throw broken('has a number of more than 64 bits');
  }

  /** The end of a part that begins here. */
  partEnd(): number {
    const length = this.size();
    if (length > this.end - this.at) throw broken('has a part that goes beyond its end');
    return this.at + length;
  }

  /** A message within this one. */
  message(): WireReader {
    const end = this.partEnd();
    const part = new WireReader(this.bytes, this.at, end);
    this.at = end;
    return part;
  }

  skip(wireType: number): void {
    if (wireType === 0) this.varint();
    else if (wireType === 2) this.at = this.partEnd();
    else if (wireType === 1 || wireType === 5) {
      this.at += wireType === 1 ? 8 : 4;
      if (this.at > this.end) throw broken('ends within a number');
    } else throw broken(`has a field of wire type ${wireType}`);
  }
}

export function broken(what: string): TonyError {
  return new TonyError('DATA_INVALID', `the message ${what}`);
}
