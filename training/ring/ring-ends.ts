import type { Socket } from 'node:net';
import type { Channel, LossCode } from '../../contract/connections/channel.ts';
import type { Reader } from '../../contract/connections/reader.ts';
import { FrameHeader } from '../../contract/encoding/frame-header.ts';
import type { Exchange } from './ring-exchange.ts';
import { PIECE_BYTES } from './ring-vector.ts';

/**
 * The header before each vector. All fields are little-endian.
 *
 *   +------------+------------+--------------------+------------+
 *   | "TNYV" u32 | kind u32   | sequence u32       | length u32 |   16 bytes, followed by the segments of the vector:
 *   +------------+------------+--------------------+------------+   4 bytes per number, or 2 if the kind is float16
 *
 * The receiver rejects a frame whose `length` differs from the length of its own call, and never allocates memory based on `length`.
 */
export interface RingFrame {
  readonly kind: RingFrameKind;
  /** The number of earlier collective calls in this generation, modulo 2^32. In a `bye` frame, the total number of calls. */
  readonly sequence: number;
  readonly length: number;
}

/** A `bye` frame means that the sender has closed its ring and makes no further calls. */
export type RingFrameKind = (typeof KINDS)[number];

const KINDS = ['sum', 'mean', 'broadcast', 'bye', 'sum as float16', 'mean as float16'] as const;
const HEADER = new FrameHeader('TNYV', KINDS, 2);

const FRAME_BYTES = HEADER.bytes;

function encodeFrame({ kind, sequence, length }: RingFrame): Buffer {
  return HEADER.encode(kind, sequence >>> 0, length);
}

/** Returns null if `bytes` is not a frame header. */
function decodeFrame(bytes: Uint8Array): RingFrame | null {
  const header = HEADER.decode(bytes);
  if (header === null) {
    return null;
  }
  const [sequence = 0, length = 0] = header.fields;
  return { kind: header.kind, sequence, length };
}

export function describeFrame(frame: RingFrame): string {
  switch (frame.kind) {
    case 'bye':
      return `end of training after ${frame.sequence} calls`;
    case 'broadcast':
      return `broadcast of ${frame.length} numbers (call ${frame.sequence})`;
    default:
      return `all-reduce (${frame.kind}) of ${frame.length} numbers (call ${frame.sequence})`;
  }
}

/** Connection events for one neighbour. `lost` is the last event. */
export interface EndEvents {
  readonly mismatch: (actual: RingFrame) => void;
  /** The neighbour made `calls` collective calls and then closed its ring with a `bye` frame. */
  readonly ended: (calls: number) => void;
  readonly lost: (cause: string, code: LossCode) => void;
  /** Called when bytes arrive, and when the operating system accepts bytes for sending. */
  readonly progress: () => void;
}

interface Receipt {
  readonly expected: RingFrame;
  readonly exchange: Exchange;
  readonly resolve: () => void;
}

/**
 * Receives vectors from the left neighbour.
 *
 * Node.js needs a buffer before data arrives. Between calls, the receiver therefore reads only one header. If the header arrives before
 * this rank makes the corresponding call, the receiver pauses the socket. A read operation that is already in progress then fills `#early`,
 * possibly with headers and data from later calls.
 */
export class RingReceiver implements Reader {
  readonly #events: EndEvents;
  #channel: Channel | null = null;
  readonly #header = new Uint8Array(FRAME_BYTES);
  #headerFilled = 0;
  readonly #early = new Uint8Array(PIECE_BYTES);
  /** The unprocessed bytes of `#early`, from #earlyFrom up to but not including #earlyTo. */
  #earlyFrom = 0;
  #earlyTo = 0;
  #readsEarly = false;
  #receipt: Receipt | null = null;
  #paused = false;
  #over = false;

  constructor(events: EndEvents) {
    this.#events = events;
  }

  attach(channel: Channel): void {
    this.#channel = channel;
    channel.watch((cause, code) => this.#lose(cause, code));
  }

  /** Resolves when `exchange` has received all of its bytes. */
  receive(expected: RingFrame, exchange: Exchange): Promise<void> {
    return new Promise<void>((resolve) => {
      this.#receipt = { expected, exchange, resolve };
      if (this.#headerFilled === FRAME_BYTES) {
        this.#checkHeader();
      }
      this.#useEarly();
      if (this.#paused && !this.#holds()) {
        this.#paused = false;
        this.#channel?.resume();
      }
    });
  }

  destination(): Uint8Array {
    this.#readsEarly = false;
    if (this.#headerFilled < FRAME_BYTES) {
      return this.#header.subarray(this.#headerFilled);
    }
    if (this.#receipt !== null) {
      return this.#receipt.exchange.destination();
    }
    this.#readsEarly = true;
    return this.#early;
  }

  received(count: number): boolean {
    this.#events.progress();
    if (this.#over) {
      return true;
    }
    if (this.#readsEarly) {
      this.#earlyFrom = 0;
      this.#earlyTo = count;
      this.#useEarly();
    } else if (this.#headerFilled < FRAME_BYTES) {
      this.#headerFilled += count;
      if (this.#headerFilled === FRAME_BYTES) {
        this.#checkHeader();
      }
    } else {
      this.#receipt?.exchange.received(count);
      this.#closeWhenComplete();
    }
    this.#paused = this.#holds();
    return !this.#paused;
  }

  /** True if a complete header is waiting for this rank's next call. */
  #holds(): boolean {
    return this.#headerFilled === FRAME_BYTES && this.#receipt === null && !this.#over;
  }

  #useEarly(): void {
    while (this.#earlyFrom < this.#earlyTo && !this.#holds() && !this.#over) {
      const inHeader = this.#headerFilled < FRAME_BYTES;
      const place = inHeader ? this.#header.subarray(this.#headerFilled) : (this.#receipt as Receipt).exchange.destination();
      const taken = Math.min(place.length, this.#earlyTo - this.#earlyFrom);
      place.set(this.#early.subarray(this.#earlyFrom, this.#earlyFrom + taken));
      this.#earlyFrom += taken;
      if (!inHeader) {
        this.#receipt?.exchange.received(taken);
        this.#closeWhenComplete();
      } else {
        this.#headerFilled += taken;
        if (this.#headerFilled === FRAME_BYTES) {
          this.#checkHeader();
        }
      }
    }
  }

  #checkHeader(): void {
    const actual = decodeFrame(this.#header);
    if (actual === null) {
      this.#lose('sent data that is not a frame');
      return;
    }
    if (actual.kind === 'bye') {
      this.#over = true;
      this.#events.ended(actual.sequence);
      return;
    }
    const receipt = this.#receipt;
    if (receipt === null) {
      return;
    }
    const { expected } = receipt;
    if (actual.kind !== expected.kind || actual.sequence !== expected.sequence || actual.length !== expected.length) {
      this.#over = true;
      this.#events.mismatch(actual);
      return;
    }
    this.#closeWhenComplete();
  }

  #closeWhenComplete(): void {
    const receipt = this.#receipt;
    if (receipt?.exchange.complete) {
      this.#receipt = null;
      this.#headerFilled = 0;
      receipt.resolve();
    }
  }

  #lose(cause: string, code: LossCode = 'PEER_LOST'): void {
    if (!this.#over) {
      this.#over = true;
      this.#events.lost(cause, code);
    }
  }

  get socket(): Socket | null {
    return this.#channel?.socket ?? null;
  }

  get refusal(): string | null {
    return this.#channel?.refusal ?? null;
  }

  get waiting(): boolean {
    return this.#receipt !== null;
  }

  /** Sends `bye` and ignores all further input. This is the only frame that a rank sends to its left neighbour. */
  end(calls: number): void {
    if (!this.#over) {
      this.#over = true;
      this.#channel?.end(encodeBye(calls));
    }
  }
}

export class RingSender {
  readonly #events: EndEvents;
  #channel: Channel | null = null;
  /** The number of writes that the operating system has not accepted yet. The buffers of these writes must not change. */
  #pending = 0;
  #whenFlushed: (() => void) | null = null;
  readonly #bye = Buffer.alloc(FRAME_BYTES);
  #byeFilled = 0;
  #over = false;

  constructor(events: EndEvents) {
    this.#events = events;
  }

  get pending(): number {
    return this.#pending;
  }

  get socket(): Socket | null {
    return this.#channel?.socket ?? null;
  }

  get refusal(): string | null {
    return this.#channel?.refusal ?? null;
  }

  attach(channel: Channel): void {
    this.#channel = channel;
    channel.read({
      destination: () => this.#bye.subarray(this.#byeFilled),
      received: (count) => this.#receiveBye(count),
    });
    channel.watch((cause, code) => this.#lose(cause, code));
  }

  /** Sends the header together with the first bytes, so a small vector fits into one TCP segment. */
  open(frame: RingFrame, writeFirst: () => void): void {
    this.#channel?.cork();
    this.write(encodeFrame(frame));
    writeFirst();
    this.#channel?.uncork();
  }

  /** Sends `bytes`. The caller must not change the bytes until `flushed()` resolves. */
  readonly write = (bytes: Uint8Array): void => {
    if (this.#over || this.#channel === null || bytes.length === 0) {
      return;
    }
    this.#pending++;
    this.#channel.write(bytes, () => {
      this.#pending--;
      this.#events.progress();
      if (this.#pending === 0) {
        this.#whenFlushed?.();
        this.#whenFlushed = null;
      }
    });
  };

  flushed(): Promise<void> {
    return this.#pending === 0
      ? Promise.resolve()
      : new Promise<void>((resolve) => {
          this.#whenFlushed = resolve;
        });
  }

  end(calls: number): void {
    if (!this.#over) {
      this.#over = true;
      this.#channel?.end(encodeBye(calls));
    }
  }

  #receiveBye(count: number): boolean {
    this.#byeFilled += count;
    if (this.#byeFilled < FRAME_BYTES) {
      return true;
    }
    // Later input overwrites the frame, but is ignored.
    this.#byeFilled = 0;
    const frame = decodeFrame(this.#bye);
    if (this.#over || frame?.kind !== 'bye') {
      this.#lose('sent data that is not a frame');
      return true;
    }
    this.#over = true;
    this.#events.ended(frame.sequence);
    return true;
  }

  #lose(cause: string, code: LossCode = 'PEER_LOST'): void {
    if (!this.#over) {
      this.#over = true;
      this.#events.lost(cause, code);
    }
  }
}

function encodeBye(calls: number): Buffer {
  return encodeFrame({ kind: 'bye', sequence: calls, length: 0 });
}
