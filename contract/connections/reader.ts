/** Receives a connection's data. */
export interface Reader {
  /** Returns the buffer for the next bytes. Called before each read. The buffer is never empty. */
  destination(): Uint8Array;
  /**
   * Handles the `count` bytes that have been read into the buffer. Returns false to pause the connection. To continue, the reader must call
   * the channel's `resume`.
   */
  received(count: number): boolean;
}

/** Copies a chunk into a reader's buffers until the reader pauses. Returns the rest of the chunk if the reader has paused, otherwise null. */
export function pushUntilPaused(reader: Reader, chunk: Uint8Array): Uint8Array | null {
  for (let at = 0; at < chunk.length; ) {
    const place = reader.destination();
    const count = Math.min(place.length, chunk.length - at);
    place.set(chunk.subarray(at, at + count));
    at += count;
    if (!reader.received(count)) {
      return chunk.subarray(at);
    }
  }
  return null;
}
