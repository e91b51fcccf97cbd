import type { Socket } from 'node:net';
import { MAX_BODY_BYTES, type RecordKey } from './record.ts';

/** Number of encrypted bytes that may wait in the socket. Further data waits unencrypted, which limits the memory for ciphertext. */
const IN_FLIGHT_BYTES = 1024 * 1024;
/** Maximum total length of the parts that share one record. */
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
  /** How many bytes of the first waiting part are already in a record. */
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
    // In this format, only alerts are empty records.
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

  /** Writes all parts to the socket immediately, regardless of IN_FLIGHT_BYTES. */
  flush(): void {
    this.#pump(Number.POSITIVE_INFINITY);
  }

  /** Drops the parts that are not in a record yet, sends an alert and ignores later writes. */
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

  /** Removes the next record's bytes from the queue. `written` contains the parts completed by this record. */
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
