import type { Piece } from '../protocol/layout.ts';

/** Returns a piece's bytes, as a view of the variable's values. */
export function bytesOf(numbers: Float32Array, { from, count }: Piece): Uint8Array {
  return new Uint8Array(numbers.buffer, numbers.byteOffset + from * 4, count * 4);
}
