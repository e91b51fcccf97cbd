import { type Lane, PIECE_BYTES } from './ring-vector.ts';

/** The format in which numbers are sent. Sums are always computed in float32. */
export type Wire = 'float32' | 'float16';

/**
 * The data that one rank sends and receives in one collective call.
 *
 * The algorithm is the ring all-reduce of Patarasuk and Yuan (2009). It splits the vector into one segment per rank. Each segment travels
 * around the ring twice: once to compute the sums, and once to distribute them.
 *
 *   rank r sends     segment r, r-1, r-2, ...   first segment r, then each received segment except the last, in order of arrival
 *   rank r receives  segment r-1, r-2, ...      size-1 segments to add to its own numbers, then size-1 segments with complete sums
 *
 * A rank does not wait for a whole segment: it forwards each piece as soon as it has added its own numbers to the piece.
 */
export interface Plan {
  /** The part of the vector to send when the call begins, or null if this rank receives first. */
  readonly first: IndexRange | null;
  readonly steps: readonly ExchangeStep[];
}

/** A range of indices into the vector: from <= i < to. */
export interface IndexRange {
  readonly from: number;
  readonly to: number;
}

export interface ExchangeStep extends IndexRange {
  readonly action: 'add' | 'take';
  /**
   * The factor to apply after the addition, or null for no scaling. Only the last addition has a factor, and only when the ring computes a
   * mean.
   */
  readonly scale: number | null;
  /** True for the last addition, after which the segment's sums are complete. */
  readonly finishes: boolean;
  readonly sendOn: boolean;
}

export function planAllReduce(rank: number, size: number, length: number, operation: 'sum' | 'mean'): Plan {
  const segment = (index: number): IndexRange => {
    const wrapped = ((index % size) + size) % size;
    return { from: Math.floor((wrapped * length) / size), to: Math.floor(((wrapped + 1) * length) / size) };
  };
  const steps: ExchangeStep[] = [];
  for (let turn = 0; turn < size - 1; turn++) {
    const last = turn === size - 2;
    steps.push({
      ...segment(rank - 1 - turn),
      action: 'add',
      scale: last && operation === 'mean' ? 1 / size : null,
      finishes: last,
      sendOn: true,
    });
  }
  for (let turn = 0; turn < size - 1; turn++) {
    steps.push({ ...segment(rank - turn), action: 'take', scale: null, finishes: false, sendOn: turn < size - 2 });
  }
  return { first: segment(rank), steps: steps.filter((step) => step.to > step.from) };
}

/** Plans a broadcast, in which each rank passes rank 0's vector on to its right neighbour. */
export function planBroadcast(rank: number, size: number, length: number): Plan {
  const all = { from: 0, to: length };
  if (rank === 0) {
    return { first: all, steps: [] };
  }
  return { first: null, steps: length === 0 ? [] : [{ ...all, action: 'take', scale: null, finishes: false, sendOn: rank < size - 1 }] };
}

/** Returns whether this rank receives from its left neighbour, and whether it sends to its right neighbour. */
export function takesPart(kind: 'all-reduce' | 'broadcast', rank: number, size: number): { receives: boolean; sends: boolean } {
  return kind === 'all-reduce' ? { receives: true, sends: true } : { receives: rank > 0, sends: rank < size - 1 };
}

/** The minimum size of a piece to forward in a `take` step. Because of this minimum, many small reads become a few larger writes. */
const SEND_ON_BYTES = 64 * 1024;

/**
 * Receives, adds and forwards one call's data. It is a state machine that does not use sockets.
 *
 * The caller reads bytes into `destination()` and passes the byte count to `received()`. The exchange calls `send` with the bytes that this
 * rank must forward. These bytes are views of the vector or of its float16 image, and may be written to the socket later. They do not
 * change before that: the vector changes again only when complete sums arrive, and these depend on the forwarded bytes.
 *
 * In float16, each partial sum is rounded before it is sent. The rank that completes a segment's sums also keeps the rounded sums, so the
 * sums are bit-identical on all ranks.
 */
export class Exchange {
  readonly #lane: Lane;
  readonly #steps: readonly ExchangeStep[];
  readonly #send: (bytes: Uint8Array) => void;
  readonly #onReceived: (count: number) => void;
  #step = 0;
  /** Byte offsets into the image. #received is the end of the received bytes. #done is the end of the processed bytes. */
  #received = 0;
  #done = 0;
  #unaddedBytes = 0;

  /** @param onReceived called with the number of received bytes, after `send`. */
  constructor(lane: Lane, plan: Plan, send: (bytes: Uint8Array) => void, onReceived: (count: number) => void = () => {}) {
    this.#lane = lane;
    this.#steps = plan.steps;
    this.#send = send;
    this.#onReceived = onReceived;
    this.#enter();
  }

  get complete(): boolean {
    return this.#step >= this.#steps.length;
  }

  /** Returns a buffer for the next bytes. The buffer is never empty. Must not be called when `complete` is true. */
  destination(): Uint8Array<ArrayBuffer> {
    const { image, scratch, width } = this.#lane;
    const step = this.#current();
    const end = step.to * width;
    if (step.action === 'take') {
      return image.subarray(this.#received, end);
    }
    return scratch.subarray(this.#unaddedBytes, Math.min(PIECE_BYTES, this.#unaddedBytes + end - this.#received));
  }

  received(count: number): void {
    const { width } = this.#lane;
    const step = this.#current();
    this.#received += count;
    const ended = this.#received === step.to * width;
    if (step.action === 'take') {
      if (ended || this.#received - this.#done >= SEND_ON_BYTES) {
        this.#take(step);
      }
    } else {
      this.#unaddedBytes += count;
      if (ended || this.#unaddedBytes === PIECE_BYTES) {
        this.#add(step);
      }
    }
    if (ended) {
      this.#step++;
      this.#enter();
    }
    this.#onReceived(count);
  }

  #add(step: ExchangeStep): void {
    const { width } = this.#lane;
    const [from, to] = [this.#done / width, this.#received / width];
    this.#lane.add(from, to - from);
    this.#unaddedBytes = 0;
    if (step.scale !== null) {
      this.#lane.scale(from, to, step.scale);
    }
    this.#lane.encode(from, to);
    if (step.finishes) {
      this.#lane.decode(from, to);
    }
    this.#sendUpTo(to * width);
  }

  #take(step: ExchangeStep): void {
    const { width } = this.#lane;
    // The received bytes may end in the middle of a number.
    const [from, to] = [this.#done / width, Math.floor(this.#received / width)];
    this.#lane.decode(from, to);
    if (step.sendOn) {
      this.#sendUpTo(to * width);
    } else {
      this.#done = to * width;
    }
  }

  #sendUpTo(end: number): void {
    this.#send(this.#lane.image.subarray(this.#done, end));
    this.#done = end;
  }

  #enter(): void {
    this.#received = (this.#steps[this.#step]?.from ?? 0) * this.#lane.width;
    this.#done = this.#received;
  }

  #current(): ExchangeStep {
    const step = this.#steps[this.#step];
    if (step === undefined) {
      throw new RangeError('received more bytes than the call expects');
    }
    return step;
  }
}
