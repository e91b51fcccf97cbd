/**
 * How many bytes each of two ranks may send beyond the number that it has received: enough to keep both directions busy, and little enough
 * to stay in the processor's cache.
 */
const AHEAD_BYTES = 512 * 1024;
/** The smallest write while more bytes are queued, because a small write costs as much as a large one. */
export const LEAST_WRITE_BYTES = 128 * 1024;

/**
 * The window, in bytes, for a world of this size. More than two ranks need no window: their segments are smaller, and waiting for one
 * neighbour would delay the other (measured with 4 ranks).
 */
export function aheadOf(worldSize: number): number {
  return worldSize === 2 ? AHEAD_BYTES : Number.POSITIVE_INFINITY;
}

/**
 * Limits sending to the rate of receiving. Without a window, a rank would hand its whole segment, possibly megabytes, to the kernel, and
 * the data would have left the processor's cache when the neighbour reads it. The window cannot deadlock: if every rank waited, each would
 * have sent more bytes than it had received, which is impossible around a ring.
 */
export class SendWindow {
  readonly #write: (bytes: Uint8Array) => void;
  readonly #waiting: Uint8Array[] = [];
  #allowed: number;

  /** @param ahead the window in bytes; Infinity for a rank that only sends. */
  constructor(write: (bytes: Uint8Array) => void, ahead = AHEAD_BYTES) {
    this.#write = write;
    this.#allowed = ahead;
  }

  readonly send = (bytes: Uint8Array): void => {
    this.#waiting.push(bytes);
    this.#go();
  };

  readonly received = (count: number): void => {
    this.#allowed += count;
    this.#go();
  };

  #go(): void {
    for (let head = this.#waiting[0]; head !== undefined; head = this.#waiting[0]) {
      if (this.#allowed < Math.min(head.length, LEAST_WRITE_BYTES)) {
        return;
      }
      const count = Math.min(head.length, this.#allowed);
      this.#allowed -= count;
      if (count === head.length) {
        this.#waiting.shift();
      } else {
        this.#waiting[0] = head.subarray(count);
      }
      this.#write(head.subarray(0, count));
    }
  }
}
