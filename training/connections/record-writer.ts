import type { Socket } from 'node:net';
import { MAX_BODY_BYTES, type RecordKey } from './record.ts';

/** The number of bytes that may wait in the socket. Later bytes are not encrypted yet, which limits the memory for ciphertext. */
const IN_FLIGHT_BYTES = 1024 * 1024;
/** Successive parts share a record if their total length does not exceed this limit. */
const SHARED_BYTES = 16 * 1024;

interface Part {
  readonly bytes: Uint8Array;
  readonly onWritten: (() => void) | undefined;
}

/** Writes records to a socket as fast as the socket accepts them. */
export class RecordWriter {
  readonly #key: RecordKey;
  readonly #socket: Socket;
  readonly #most: number;
  #parts: Part[] = [];
  /** The number of bytes of the first part that are already in earlier records. */
  #taken = 0;
  #inFlight = 0;
  #corked = 0;
  #over = false;

  constructor(key: RecordKey, socket: Socket) {
    this.#key = key;
    this.#socket = socket;
    this.#most = MAX_BODY_BYTES[key.security];
  }

  write(bytes: Uint8Array, onWritten?: () => void): void {
    // A record is never empty.
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

  /** Writes all parts to the socket, regardless of how much data is waiting there. */
  flush(): void {
    this.#pump(Number.POSITIVE_INFINITY);
  }

  /** Sends an alert instead of all parts that are not in a record yet. Ignores later writes. */
  alert(): void {
    this.#over = true;
    this.#parts = [];
    this.#socket.write(this.#key.seal([]).header);
  }

  #pump(mostInFlight: number): void {
    while (this.#parts.length > 0 && this.#inFlight < mostInFlight && this.#corked === 0 && this.#socket.writable) {
      const { bodies, written } = this.#nextRecord();
      const { header, body } = this.#key.seal(bodies);
      const length = body.reduce((sum, each) => sum + each.length, 0);
      this.#inFlight += length;
      this.#socket.cork();
      this.#socket.write(header);
      body.forEach((each, index) => {
        this.#socket.write(each, index < body.length - 1 ? undefined : (error) => this.#afterWrite(error, length, written));
      });
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

  /** Removes the next record's bytes from the queue. `written` contains the parts that end in this record. */
  #nextRecord(): { readonly bodies: readonly Uint8Array[]; readonly written: readonly Part[] } {
    const first = this.#parts[0] as Part;
    const start = this.#taken;
    const end = Math.min(first.bytes.length, start + this.#most);
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
