/**
 * What an upload sends: bytes in memory, a stream, or a function that opens the stream anew. After a broken connection, a stream that has
 * been consumed cannot be sent again; the other two can.
 */
export type ByteSource = Uint8Array | AsyncIterable<Uint8Array> | (() => AsyncIterable<Uint8Array>);

/** Bytes in memory, or the stream to consume. */
export function openSource(source: ByteSource): Uint8Array | AsyncIterable<Uint8Array> {
  return typeof source === 'function' ? source() : source;
}

/** Whether a failed upload can be repeated from the first byte. */
export function canBeSentAgain(source: ByteSource): boolean {
  return typeof source === 'function' || source instanceof Uint8Array;
}
