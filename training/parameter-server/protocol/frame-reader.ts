import type { Reader } from '../../../contract/connections/reader.ts';
import { messageOf } from '../../../platform/errors.ts';
import { decodeFrame, FRAME_BYTES, type ServerFrame } from './frame.ts';

export interface FrameEvents {
  /**
   * Returns a buffer of exactly `frame.bodyBytes` bytes for the frame's body. Called once the frame's head has arrived.
   * @throws if the receiver does not expect this body.
   */
  place(frame: ServerFrame, head: unknown): Uint8Array;
  complete(frame: ServerFrame, head: unknown, body: Uint8Array): void;
  /** Called once if the input is invalid. The reader then stops. */
  broken(reason: string): void;
}

const NO_BYTES = new Uint8Array(0);

/** Parses frames from chunks of any size. Writes bodies directly to their destination, without copying them. */
export class ServerFrameReader implements Reader {
  readonly #events: FrameEvents;
  readonly #header = new Uint8Array(FRAME_BYTES);
  #part: 'header' | 'head' | 'body' = 'header';
  #place: Uint8Array = this.#header;
  #filled = 0;
  #frame: ServerFrame | null = null;
  #head: unknown = null;
  #over = false;
  readonly #nowhere = new Uint8Array(64 * 1024);

  constructor(events: FrameEvents) {
    this.#events = events;
  }

  /** Returns a buffer for the next bytes. The buffer is never empty. */
  destination(): Uint8Array {
    return this.#over ? this.#nowhere : this.#filled === 0 ? this.#place : this.#place.subarray(this.#filled);
  }

  received(count: number): true {
    if (this.#over) {
      return true;
    }
    this.#filled += count;
    try {
      while (!this.#over && this.#filled === this.#place.length) {
        this.#next();
      }
    } catch (error) {
      this.stop();
      this.#events.broken(messageOf(error));
    }
    return true;
  }

  /** Stops parsing. Discards all further data. */
  stop(): void {
    this.#over = true;
  }

  #next(): void {
    switch (this.#part) {
      case 'header': {
        const frame = decodeFrame(this.#header);
        if ('refusal' in frame) {
          throw new Error(frame.refusal);
        }
        this.#frame = frame;
        this.#expect('head', frame.headBytes === 0 ? NO_BYTES : new Uint8Array(frame.headBytes));
        return;
      }
      case 'head': {
        const frame = this.#frame as ServerFrame;
        const text = Buffer.from(this.#place.buffer, this.#place.byteOffset, this.#place.length).toString('utf8');
        this.#head = text === '' ? null : JSON.parse(text);
        this.#expect('body', frame.bodyBytes === 0 ? NO_BYTES : this.#events.place(frame, this.#head));
        if (this.#place.length !== frame.bodyBytes) {
          throw new Error(`sent ${frame.bodyBytes} bytes instead of ${this.#place.length}`);
        }
        return;
      }
      case 'body': {
        const [frame, head, body] = [this.#frame as ServerFrame, this.#head, this.#place];
        this.#frame = null;
        this.#head = null;
        this.#expect('header', this.#header);
        this.#events.complete(frame, head, body);
        return;
      }
    }
  }

  #expect(part: 'header' | 'head' | 'body', place: Uint8Array): void {
    this.#part = part;
    this.#place = place;
    this.#filled = 0;
  }
}
