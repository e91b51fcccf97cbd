import type { Piece } from '../protocol/layout.ts';

/** Returns the bytes of a piece, as a view of the whole variable's numbers. */
export function bytesOf(numbers: Float32Array, { from, count }: Piece): Uint8Array {
  return new Uint8Array(numbers.buffer, numbers.byteOffset + from * 4, count * 4);
}
