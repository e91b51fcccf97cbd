/** Receives the data of a connection. */
export interface Reader {
  /** Returns the buffer for the next bytes, which is never empty. Called before each read. */
  destination(): Uint8Array;
  /**
   * Called after `count` bytes have been read into that buffer. Returns false to pause the connection; the reader must then resume the
   * channel.
   */
  received(count: number): boolean;
}

/** Copies a chunk to a reader, for a connection that allocates its own chunks. */
export function pushInto(reader: Reader, chunk: Uint8Array): void {
  for (let at = 0; at < chunk.length; ) {
    const place = reader.destination();
    const count = Math.min(place.length, chunk.length - at);
    place.set(chunk.subarray(at, at + count));
    at += count;
    reader.received(count);
  }
}
