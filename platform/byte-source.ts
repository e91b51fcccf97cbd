/**
 * Content to upload: bytes, a stream, or a function that opens a new stream. After a broken connection, an upload can be retried with bytes
 * or a function, but not with a stream.
 */
export type ByteSource = Uint8Array | AsyncIterable<Uint8Array> | (() => AsyncIterable<Uint8Array>);

export function openSource(source: ByteSource): Uint8Array | AsyncIterable<Uint8Array> {
  return typeof source === 'function' ? source() : source;
}

export function canBeSentAgain(source: ByteSource): boolean {
  return typeof source === 'function' || source instanceof Uint8Array;
}
