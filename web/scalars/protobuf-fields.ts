/** One field of a message as it is on the wire (protobuf's encoding guide): what it means only the message's definition says. */
export interface Field {
  readonly number: number;
  /** 0 varint, 1 eight bytes, 2 a length and so many bytes, 5 four bytes. */
  readonly type: number;
  /** Of types 1, 2 and 5; empty for a varint. */
  readonly bytes: Buffer;
  /** Of type 0. */
  readonly varint: bigint;
}

const NONE = Buffer.alloc(0);

/**
 * The fields of a message in their order.
 * @throws RangeError when the bytes are no message.
 */
export function* fieldsOf(data: Buffer): Generator<Field> {
  let at = 0;
  const varint = (): bigint => {
    let value = 0n;
    let small = 0;
    for (let shift = 0; shift < 64; shift += 7) {
      const byte = data[at++];
      if (byte === undefined) throw new RangeError('a message ends within a number');
      // Most numbers are small: big ones only are dear.
      if (shift < 28) {
        small |= (byte & 0x7f) << shift;
        if (byte < 0x80) return BigInt(small);
        if (shift === 21) value = BigInt(small);
      } else {
        value |= BigInt(byte & 0x7f) << BigInt(shift);
        if (byte < 0x80) return value;
      }
    }
    throw new RangeError('a number of a message is longer than ten bytes');
  };
  const take = (length: number): Buffer => {
    if (length > data.length - at) throw new RangeError('a message ends within a field');
    at += length;
    return data.subarray(at - length, at);
  };
  while (at < data.length) {
    const key = Number(varint());
    const [number, type] = [Math.floor(key / 8), key % 8];
    if (number === 0) throw new RangeError('a field has no number');
    if (type === 0) yield { number, type, bytes: NONE, varint: varint() };
    else if (type === 1) yield { number, type, bytes: take(8), varint: 0n };
    else if (type === 2) yield { number, type, bytes: take(Number(varint())), varint: 0n };
    else if (type === 5) yield { number, type, bytes: take(4), varint: 0n };
    else throw new RangeError(`a field has the type ${type}, which there is not`);
  }
}
