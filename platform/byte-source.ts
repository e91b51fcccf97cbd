/**
 * The source of an upload: bytes in memory, a stream, or a function that opens a new stream. Bytes and functions allow a retry after a
 * broken connection; a stream can be read only once.
 */
export type ByteSource = Uint8Array | AsyncIterable<Uint8Array> | (() => AsyncIterable<Uint8Array>);

/** Returns the bytes, or the stream to read. */
export function openSource(source: ByteSource): Uint8Array | AsyncIterable<Uint8Array> {
  return typeof source === 'function' ? source() : source;
}

/** Returns true if a failed upload can restart from the first byte. */
export function canBeSentAgain(source: ByteSource): boolean {
  return typeof source === 'function' || source instanceof Uint8Array;
}
