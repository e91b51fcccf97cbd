/**
 * The window for two ranks: how many more bytes a rank may send than it has received. A window of this size keeps both directions busy and
 * fits into the processor's cache.
 */
const AHEAD_BYTES = 512 * 1024;
/** The minimum size of a write while more bytes are queued. */
const LEAST_WRITE_BYTES = 128 * 1024;

/**
 * Returns the window in bytes. Rings of more than two ranks have no window: their segments are smaller, and in measurements with 4 ranks,
 * waiting for one neighbour delayed the other.
 */
export function aheadOf(worldSize: number): number {
  return worldSize === 2 ? AHEAD_BYTES : Number.POSITIVE_INFINITY;
}

/**
 * Limits the sending rate to the receiving rate. Without a window, a rank would write its whole segment to the socket at once, and the
 * data would leave the processor's cache before the neighbour reads it.
 *
 * The window cannot cause a deadlock. If all ranks were waiting, each rank would have sent more bytes than it had received, which is
 * impossible in a ring.
 */
export class SendWindow {
  readonly #write: (bytes: Uint8Array) => void;
  readonly #waiting: Uint8Array[] = [];
  #allowed: number;

  /** @param ahead the window in bytes. Infinity for a rank that only sends. */
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
