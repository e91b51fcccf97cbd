import type { Piece } from '../protocol/layout.ts';

/** The bytes of a piece in the numbers of the whole variable; not copied. */
export function bytesOf(numbers: Float32Array, { from, count }: Piece): Uint8Array {
  return new Uint8Array(numbers.buffer, numbers.byteOffset + from * 4, count * 4);
}
