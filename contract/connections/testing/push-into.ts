import { pushUntilPaused, type Reader } from '../reader.ts';

/** Copies a chunk into a reader's buffers, even while the reader asks for a pause. */
export function pushInto(reader: Reader, chunk: Uint8Array): void {
  for (let rest: Uint8Array | null = chunk; rest !== null && rest.length > 0; ) {
    rest = pushUntilPaused(reader, rest);
  }
}
