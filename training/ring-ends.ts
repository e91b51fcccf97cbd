import type { Socket } from 'node:net';
import type { Reader } from './ring-connect.ts';
import type { Exchange } from './ring-exchange.ts';
import { decodeFrame, encodeFrame, FRAME_BYTES, type Frame } from './ring-frame.ts';
import { PIECE_BYTES } from './ring-vector.ts';

/** What an end tells the ring. After `lost` nothing more comes from that end. */
export interface EndEvents {
  /** The neighbour has sent a frame that is not what this rank's call expects. */
  readonly mismatch: (actual: Frame) => void;
  /** The neighbour has ended properly, after so many calls, and takes part no more. */
  readonly ended: (calls: number) => void;
  readonly lost: (cause: string) => void;
  /** Bytes have moved. */
  readonly progress: () => void;
}

interface Receipt {
  readonly expected: Frame;
  readonly exchange: Exchange;
  readonly resolve: () => void;
}

/**
 * The end that reads from the left neighbour. While idle it asks for a header only, since the place for the bytes of the next read is
 * named before that read. When a header comes before this rank's own call, reading pauses, and the one place already named by then is a
 * buffer of its own: what is read there may reach beyond this call, into the headers and bytes of the next ones.
 */
export class LeftEnd implements Reader {
  readonly #events: EndEvents;
  #socket: Socket | null = null;
  readonly #header = new Uint8Array(FRAME_BYTES);
  #headerFilled = 0;
  readonly #early = new Uint8Array(PIECE_BYTES);
  /** What of `#early` is not used yet. */
  #earlyFrom = 0;
  #earlyTo = 0;
  /** The place last named is `#early`. */
  #readsEarly = false;
  #receipt: Receipt | null = null;
  #paused = false;
  #over = false;

  constructor(events: EndEvents) {
    this.#events = events;
  }

  attach(socket: Socket): void {
    this.#socket = socket;
    watch(socket, (cause) => this.#lose(cause));
  }

  /** Resolves when all that `exchange` receives is there. */
  receive(expected: Frame, exchange: Exchange): Promise<void> {
    return new Promise<void>((resolve) => {
      this.#receipt = { expected, exchange, resolve };
      if (this.#headerFilled === FRAME_BYTES) {
        this.#open();
      }
      this.#useEarly();
      if (this.#paused && !this.#holds()) {
        this.#paused = false;
        this.#socket?.resume();
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
        this.#open();
      }
    } else {
      this.#receipt?.exchange.received(count);
      this.#closeWhenComplete();
    }
    this.#paused = this.#holds();
    return !this.#paused;
  }

  /** A header is there whose call this rank has not made yet. */
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
          this.#open();
        }
      }
    }
  }

  /** A header is complete. */
  #open(): void {
    const actual = decodeFrame(this.#header);
    if (actual === null) {
      this.#lose('sent something that is no frame');
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

  #lose(cause: string): void {
    if (!this.#over) {
      this.#over = true;
      this.#events.lost(cause);
    }
  }

  get socket(): Socket | null {
    return this.#socket;
  }

  /** A call is open, and not all of it has come. */
  get waiting(): boolean {
    return this.#receipt !== null;
  }

  /** Says goodbye, the one thing that travels in this direction; what is still to come is not read. */
  end(calls: number): void {
    if (!this.#over) {
      this.#over = true;
      this.#socket?.end(encodeBye(calls));
    }
  }
}

/** The end that writes to the right neighbour. */
export class RightEnd {
  readonly #events: EndEvents;
  #socket: Socket | null = null;
  /** Writes whose bytes the kernel has not taken yet: until then they are still being read from where they lie. */
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
    return this.#socket;
  }

  attach(socket: Socket): void {
    this.#socket = socket;
    socket.on('data', (chunk: Buffer) => this.#hear(chunk));
    watch(socket, (cause) => this.#lose(cause));
  }

  /** A header and, in the same segment where they fit, the first bytes. */
  open(frame: Frame, writeFirst: () => void): void {
    this.#socket?.cork();
    this.write(encodeFrame(frame));
    writeFirst();
    this.#socket?.uncork();
  }

  /** `bytes` must not change until `flushed()`. */
  readonly write = (bytes: Uint8Array): void => {
    if (this.#over || this.#socket === null || bytes.length === 0) {
      return;
    }
    this.#pending++;
    this.#socket.write(bytes, (error) => {
      if (error) {
        return;
      }
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
      this.#socket?.end(encodeBye(calls));
    }
  }

  #hear(chunk: Buffer): void {
    if (this.#byeFilled + chunk.length <= FRAME_BYTES) {
      this.#bye.set(chunk, this.#byeFilled);
      this.#byeFilled += chunk.length;
      if (this.#byeFilled < FRAME_BYTES) {
        return;
      }
      const frame = decodeFrame(this.#bye);
      if (frame?.kind === 'bye') {
        this.#over = true;
        this.#events.ended(frame.sequence);
        return;
      }
    }
    this.#lose('sent something that is no frame');
  }

  #lose(cause: string): void {
    if (!this.#over) {
      this.#over = true;
      this.#events.lost(cause);
    }
  }
}

function encodeBye(calls: number): Buffer {
  return encodeFrame({ kind: 'bye', sequence: calls, length: 0 });
}

function watch(socket: Socket, lose: (cause: string) => void): void {
  socket.on('error', (error: NodeJS.ErrnoException) => lose(`broke the connection (${error.code ?? error.message})`));
  socket.on('end', () => lose('closed the connection'));
  socket.on('close', () => lose('closed the connection'));
}
