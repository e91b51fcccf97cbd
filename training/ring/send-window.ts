/**
 * How far each of two ranks may send ahead of the bytes it has received: enough to keep both directions busy, little enough to stay in the
 * processor's cache.
 */
const AHEAD_BYTES = 512 * 1024;
/** The smallest write while more bytes are queued: small writes cost as much as large ones. */
export const LEAST_WRITE_BYTES = 128 * 1024;

/**
 * More than two ranks send without a window: their segments are smaller, and waiting for one neighbour would delay the other (measured with
 * 4 ranks).
 */
export function aheadOf(worldSize: number): number {
  return worldSize === 2 ? AHEAD_BYTES : Number.POSITIVE_INFINITY;
}

/**
 * Limits sending to the rate of receiving. Without the window a rank hands its whole segment, possibly megabytes, to the kernel, and the
 * data has left the processor's cache by the time the neighbour reads it. The window cannot deadlock: if every rank waited, each would have
 * sent more than it had received, which is impossible around a ring.
 */
export class SendWindow {
  readonly #write: (bytes: Uint8Array) => void;
  readonly #waiting: Uint8Array[] = [];
  #allowed: number;

  /** @param ahead the window in bytes; Infinity for a rank that receives nothing. */
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
