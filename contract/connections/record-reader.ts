import { pushUntilPaused, type Reader } from './reader.ts';
import { bodyLength, MAX_BODY_BYTES, RECORD_HEADER_BYTES, type RecordKey } from './record.ts';

/** Which end of a connection has detected invalid data. If the peer has detected it, the peer has sent an alert. */
export type Detector = 'this end' | 'peer';

/**
 * Verifies a connection's records, and passes their bodies to an inner reader. The inner reader sees only data whose tag is valid. To
 * avoid a copy, a body is read directly into the inner reader's buffer if the body fits.
 */
export class RecordReader implements Reader {
  readonly #key: RecordKey;
  readonly #inner: Reader;
  readonly #onInvalid: (detectedBy: Detector) => void;
  readonly #header = Buffer.alloc(RECORD_HEADER_BYTES);
  #body: Uint8Array | null = null;
  #filled = 0;
  /** True if the current body is read directly into the inner reader's buffer. */
  #isDirect = false;
  /** Buffer for bodies that are not read directly. The buffer grows when a longer body arrives. */
  #own = new Uint8Array(16 * 1024);
  /** Verified data that waits while the inner reader is paused. */
  readonly #held: Uint8Array[] = [];
  #paused = false;
  #over = false;

  /** @param onInvalid is called once, when an invalid record or an alert arrives. All later data is discarded. */
  constructor(key: RecordKey, inner: Reader, onInvalid: (detectedBy: Detector) => void) {
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
    for (let data = this.#held.shift(); data !== undefined; data = this.#paused ? undefined : this.#held.shift()) {
      const rest = this.#deliver(data);
      if (rest.length > 0) {
        this.#held.unshift(rest);
      }
    }
    return !this.#paused;
  }

  #expectBody(): void {
    const length = bodyLength(this.#header);
    if (length === null) {
      this.#stop('this end');
      return;
    }
    if (length === 0) {
      this.#stop(this.#key.verify(this.#header, new Uint8Array(0)) ? 'peer' : 'this end');
      return;
    }
    if (!this.#paused) {
      const place = this.#inner.destination();
      this.#isDirect = place.length >= length;
      if (this.#isDirect) {
        this.#body = place.subarray(0, length);
        return;
      }
    }
    this.#isDirect = false;
    if (this.#own.length < length) {
      this.#own = new Uint8Array(MAX_BODY_BYTES);
    }
    this.#body = this.#own.subarray(0, length);
  }

  #complete(body: Uint8Array): void {
    this.#body = null;
    if (!this.#key.verify(this.#header, body)) {
      this.#stop('this end');
      return;
    }
    if (this.#isDirect) {
      this.#paused = !this.#inner.received(body.length);
      return;
    }
    const rest = this.#deliver(body);
    if (rest.length > 0) {
      // The next record overwrites `#own`, so the data must be copied.
      this.#held.push(rest.slice());
    }
  }

  /** Passes verified data to the inner reader. Returns the part that remains if the inner reader pauses. */
  #deliver(data: Uint8Array): Uint8Array {
    const rest = this.#paused ? data : pushUntilPaused(this.#inner, data);
    this.#paused = rest !== null;
    return rest ?? data.subarray(data.length);
  }

  #stop(detectedBy: Detector): void {
    this.#over = true;
    this.#held.length = 0;
    this.#onInvalid(detectedBy);
  }
}
