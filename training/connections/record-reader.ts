import type { Reader } from './reader.ts';
import { bodyLength, MAX_BODY_BYTES, RECORD_HEADER_BYTES, type RecordKey } from './record.ts';

/** Which end of the connection has detected an invalid record. If the peer has detected it, the peer has sent an alert. */
export type Detector = 'this end' | 'peer';

/**
 * Verifies a connection's records, and passes their plaintext to an inner reader. The inner reader sees only data whose tag is valid. To
 * avoid a copy, an unencrypted body is read directly into the inner reader's buffer if the body fits.
 */
export class RecordReader implements Reader {
  readonly #key: RecordKey;
  readonly #inner: Reader;
  readonly #onInvalid: (cause: string, detectedBy: Detector) => void;
  readonly #header = Buffer.alloc(RECORD_HEADER_BYTES);
  #body: Uint8Array | null = null;
  #filled = 0;
  /** True if the current body is read directly into the inner reader's buffer. */
  #isDirect = false;
  /** Buffer for bodies that are not read directly. The buffer grows when a longer body arrives. */
  #own = new Uint8Array(16 * 1024);
  /** Verified plaintext that waits while the inner reader is paused. */
  readonly #held: Uint8Array[] = [];
  #paused = false;
  #over = false;

  /** @param onInvalid is called once, when an invalid record or an alert arrives. All later data is discarded. */
  constructor(key: RecordKey, inner: Reader, onInvalid: (cause: string, detectedBy: Detector) => void) {
    this.#key = key;
    this.#inner = inner;
    this.#onInvalid = onInvalid;
  }

  destination(): Uint8Array {
    return this.#over ? this.#own : (this.#body ?? this.#header).subarray(this.#filled);
  }

  received(count: number): boolean {
    if (this.#over) {
      return true;
    }
    this.#filled += count;
    if (this.#filled === (this.#body ?? this.#header).length) {
      this.#filled = 0;
      if (this.#body === null) {
        this.#expectBody();
      } else {
        this.#complete(this.#body);
      }
    }
    return !this.#paused;
  }

  /** Passes the waiting data to the inner reader. Returns false if the inner reader has paused again. */
  resume(): boolean {
    this.#paused = false;
    for (let plaintext = this.#held.shift(); plaintext !== undefined; plaintext = this.#paused ? undefined : this.#held.shift()) {
      const rest = this.#deliver(plaintext);
      if (rest.length > 0) {
        this.#held.unshift(rest);
      }
    }
    return !this.#paused;
  }

  #expectBody(): void {
    const { security } = this.#key;
    const length = bodyLength(this.#header, security);
    if (length === null) {
      this.#stop('this end');
      return;
    }
    if (length === 0) {
      this.#stop(this.#key.open(this.#header, new Uint8Array(0)) === null ? 'this end' : 'peer');
      return;
    }
    if (security === 'authenticated' && !this.#paused) {
      const place = this.#inner.destination();
      this.#isDirect = place.length >= length;
      if (this.#isDirect) {
        this.#body = place.subarray(0, length);
        return;
      }
    }
    this.#isDirect = false;
    if (this.#own.length < length) {
      this.#own = new Uint8Array(MAX_BODY_BYTES[security]);
    }
    this.#body = this.#own.subarray(0, length);
  }

  #complete(body: Uint8Array): void {
    this.#body = null;
    const plaintext = this.#key.open(this.#header, body);
    if (plaintext === null) {
      this.#stop('this end');
      return;
    }
    if (this.#isDirect) {
      this.#paused = !this.#inner.received(body.length);
      return;
    }
    const rest = this.#deliver(plaintext);
    if (rest.length > 0) {
      // The next record overwrites `#own`, so the data must be copied.
      this.#held.push(rest.slice());
    }
  }

  /** Passes plaintext to the inner reader. Returns the part that remains if the inner reader pauses. */
  #deliver(plaintext: Uint8Array): Uint8Array {
    let at = 0;
    while (at < plaintext.length && !this.#paused) {
      const place = this.#inner.destination();
      const count = Math.min(place.length, plaintext.length - at);
      place.set(plaintext.subarray(at, at + count));
      at += count;
      this.#paused = !this.#inner.received(count);
    }
    return plaintext.subarray(at);
  }

  #stop(detectedBy: Detector): void {
    this.#over = true;
    this.#held.length = 0;
    const verb = detectedBy === 'peer' ? 'received' : 'sent';
    this.#onInvalid(`${verb} data that was modified, replayed, removed or injected on the network`, detectedBy);
  }
}
