import { inspect } from 'node:util';

/** Bytes that must never be printed: every way of turning it into text gives `***`. */
export class Secret {
  readonly #bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.#bytes = Uint8Array.from(bytes);
  }

  /** The bytes themselves; hand them on only to what encrypts, signs or writes a 0600 file. */
  reveal(): Uint8Array {
    return this.#bytes;
  }

  toString(): string {
    return '***';
  }

  toJSON(): string {
    return '***';
  }

  [inspect.custom](): string {
    return '***';
  }
}
