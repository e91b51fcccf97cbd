/**
 * Content to upload, as bytes, a stream, or a function that opens a new stream. If the connection breaks, an upload from a stream cannot be
 * retried.
 */
export type ByteSource = Uint8Array | AsyncIterable<Uint8Array> | (() => AsyncIterable<Uint8Array>);

export function openSource(source: ByteSource): Uint8Array | AsyncIterable<Uint8Array> {
  return typeof source === 'function' ? source() : source;
}

export function canBeSentAgain(source: ByteSource): boolean {
  return typeof source === 'function' || source instanceof Uint8Array;
}
