/** So much each of two ranks is ahead of what it has received: enough to keep both directions busy, little enough to stay in the processor's cache. */
const AHEAD_BYTES = 512 * 1024;
/** Nothing less is written while more is there: small writes cost as much as large ones. */
export const LEAST_WRITE_BYTES = 128 * 1024;

/** Of more ranks each sends smaller segments, and waiting for one neighbour would hold up the other: they do not wait (measured with 4 ranks). */
export function aheadOf(worldSize: number): number {
  return worldSize === 2 ? AHEAD_BYTES : Number.POSITIVE_INFINITY;
}

/**
 * Sends as fast as it receives. Without it a rank hands its whole segment to the kernel, megabytes that have left the processor's cache
 * by the time the neighbour reads them. It cannot come to a standstill: if every rank of a ring waited, each would have sent more than it has
 * received, all around the ring.
 */
export class Pace {
  readonly #write: (bytes: Uint8Array) => void;
  readonly #waiting: Uint8Array[] = [];
  #allowed: number;

  /** @param ahead Infinity for a rank that receives nothing. */
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
