import type { Socket } from 'node:net';

/** Number of protected bytes that may wait in the socket. Further data waits unprotected, which limits the memory for ciphertext. */
const IN_FLIGHT_BYTES = 1024 * 1024;
/** Maximum total length of the parts that are sent together. */
const SHARED_BYTES = 16 * 1024;

interface Part {
  readonly bytes: Uint8Array;
  readonly onWritten: (() => void) | undefined;
}

export interface PacedWriterOptions {
  /** Maximum number of bytes that `put` receives at once. */
  readonly most: number;
  /** Writes `bodies` to the socket, which is corked. Passes `onWritten` to the last write. */
  readonly put: (bodies: readonly Uint8Array[], onWritten: (error?: Error | null) => void) => void;
}

/** Divides writes into pieces, and passes them to a socket as fast as the socket accepts them. */
export class PacedWriter {
  readonly #socket: Socket;
  readonly #options: PacedWriterOptions;
  #parts: Part[] = [];
  /** How many bytes of the first waiting part have been passed to `put`. */
  #taken = 0;
  #inFlight = 0;
  #corked = 0;
  #over = false;

  constructor(socket: Socket, options: PacedWriterOptions) {
    this.#socket = socket;
    this.#options = options;
  }

  write(bytes: Uint8Array, onWritten?: () => void): void {
    if (bytes.length === 0) {
      onWritten?.();
      return;
    }
    if (this.#over) {
      return;
    }
    this.#parts.push({ bytes, onWritten });
    this.#pump(IN_FLIGHT_BYTES);
  }

  cork(): void {
    this.#corked++;
  }

  uncork(): void {
    this.#corked--;
    this.#pump(IN_FLIGHT_BYTES);
  }

  /** Passes all parts to the socket immediately, regardless of IN_FLIGHT_BYTES. */
  flush(): void {
    this.#pump(Number.POSITIVE_INFINITY);
  }

  /** Drops the waiting parts and ignores later writes. */
  stop(): void {
    this.#over = true;
    this.#parts = [];
  }

  #pump(mostInFlight: number): void {
    while (this.#parts.length > 0 && this.#inFlight < mostInFlight && this.#corked === 0 && this.#socket.writable) {
      const { bodies, written } = this.#next();
      const length = bodies.reduce((sum, each) => sum + each.length, 0);
      this.#inFlight += length;
      this.#socket.cork();
      this.#options.put(bodies, (error) => this.#afterWrite(error, length, written));
      this.#socket.uncork();
    }
  }

  #afterWrite(error: unknown, length: number, written: readonly Part[]): void {
    if (!error) {
      this.#inFlight -= length;
      for (const { onWritten } of written) {
        onWritten?.();
      }
      this.#pump(IN_FLIGHT_BYTES);
    }
  }

  /** Removes the next bytes from the queue. `written` contains the parts that end with these bytes. */
  #next(): { readonly bodies: readonly Uint8Array[]; readonly written: readonly Part[] } {
    const first = this.#parts[0] as Part;
    const start = this.#taken;
    const end = Math.min(first.bytes.length, start + this.#options.most);
    const bodies = [first.bytes.subarray(start, end)];
    if (end < first.bytes.length) {
      this.#taken = end;
      return { bodies, written: [] };
    }
    this.#taken = 0;
    let count = 1;
    let total = end - start;
    for (let next = this.#parts[1]; next !== undefined && total + next.bytes.length <= SHARED_BYTES; next = this.#parts[count]) {
      bodies.push(next.bytes);
      total += next.bytes.length;
      count++;
    }
    return { bodies, written: this.#parts.splice(0, count) };
  }
}
