import { type Lane, PIECE_BYTES } from './ring-vector.ts';

/** How numbers travel; sums are of float32 in any case. */
export type Wire = 'float32' | 'float16';

/**
 * What one rank sends and receives in one collective call. Ring all-reduce after Patarasuk and Yuan (2009): the vector is cut into as
 * many segments as there are ranks; each segment travels once around the ring being summed, and once more to be handed out.
 *
 *   rank r sends     segment r, r-1, r-2, ...   first its own, then each one it has received, in the same order, but the last
 *   rank r receives  segment r-1, r-2, ...      size-1 of them to add to its own numbers, size-1 finished ones
 *
 * What is received is one stream of bytes: there is no barrier between the segments, and a piece is sent on as soon as it is summed.
 */
export interface Plan {
  /** Sent when the call begins; null when this rank begins by receiving. */
  readonly first: Span | null;
  readonly steps: readonly Step[];
}

/** In numbers. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

export interface Step extends Span {
  readonly action: 'add' | 'take';
  /** Multiplied with this before it goes on: the last addition of a mean. */
  readonly scale: number | null;
  /** The last addition: these are the sums. */
  readonly finishes: boolean;
  readonly sendOn: boolean;
}

export function planAllReduce(rank: number, size: number, length: number, operation: 'sum' | 'mean'): Plan {
  const segment = (index: number): Span => {
    const wrapped = ((index % size) + size) % size;
    return { from: Math.floor((wrapped * length) / size), to: Math.floor(((wrapped + 1) * length) / size) };
  };
  const steps: Step[] = [];
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

/** Rank 0's vector to everybody, passed from neighbour to neighbour. */
export function planBroadcast(rank: number, size: number, length: number): Plan {
  const all = { from: 0, to: length };
  if (rank === 0) {
    return { first: all, steps: [] };
  }
  return { first: null, steps: length === 0 ? [] : [{ ...all, action: 'take', scale: null, finishes: false, sendOn: rank < size - 1 }] };
}

/** Whether the left neighbour sends anything in this call, and whether the right one is sent anything: each begins with a header. */
export function takesPart(kind: 'all-reduce' | 'broadcast', rank: number, size: number): { receives: boolean; sends: boolean } {
  return kind === 'all-reduce' ? { receives: true, sends: true } : { receives: rank > 0, sends: rank < size - 1 };
}

/** A piece that is only passed on waits for this much, so that tiny reads do not become tiny writes. */
const SEND_ON_BYTES = 64 * 1024;

/**
 * The receiving half of one call as a state machine without sockets: it names the place where the next bytes belong, is told how many
 * came, and hands out what can be sent on. Bytes handed out lie in the vector itself (or its image): a place is only received into again
 * after the right neighbour has had what was sent from it (the finished segment depends on it), so nothing is copied.
 *
 * As float16 a sum is rounded each time before it is sent. Whoever finishes a segment's sum takes the rounded one back as its own, so all
 * ranks hold the same bits.
 */
export class Exchange {
  readonly #lane: Lane;
  readonly #steps: readonly Step[];
  readonly #send: (bytes: Uint8Array) => void;
  readonly #onReceived: (count: number) => void;
  #step = 0;
  /** Within the current step, in bytes of the image: received up to, and done with (added or taken, and sent on) up to. */
  #received = 0;
  #done = 0;
  /** Bytes in scratch that are not added yet. */
  #held = 0;

  /** @param onReceived told of bytes after what they allow to be sent on was handed out. */
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

  /** Where the next bytes belong; never empty. Only to be asked while not complete. */
  destination(): Uint8Array<ArrayBuffer> {
    const { image, scratch, width } = this.#lane;
    const step = this.#current();
    const end = step.to * width;
    if (step.action === 'take') {
      return image.subarray(this.#received, end);
    }
    return scratch.subarray(this.#held, Math.min(PIECE_BYTES, this.#held + end - this.#received));
  }

  /** `count` bytes have come to `destination()`. */
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
      this.#held += count;
      if (ended || this.#held === PIECE_BYTES) {
        this.#add(step);
      }
    }
    if (ended) {
      this.#step++;
      this.#enter();
    }
    this.#onReceived(count);
  }

  #add(step: Step): void {
    const { width } = this.#lane;
    const [from, to] = [this.#done / width, this.#received / width];
    this.#lane.add(from, to - from);
    this.#held = 0;
    if (step.scale !== null) {
      this.#lane.scale(from, to, step.scale);
    }
    this.#lane.encode(from, to);
    if (step.finishes) {
      this.#lane.decode(from, to);
    }
    this.#sendUpTo(to * width);
  }

  #take(step: Step): void {
    const { width } = this.#lane;
    // A read may end within a number.
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

  #current(): Step {
    const step = this.#steps[this.#step];
    if (step === undefined) {
      throw new RangeError('more bytes than this call receives');
    }
    return step;
  }
}
