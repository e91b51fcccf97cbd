import { inspect } from 'node:util';

/** Secret bytes. Every conversion to text results in `***`. */
export class Secret {
  readonly #bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.#bytes = Uint8Array.from(bytes);
  }

  /** Returns the bytes. Pass the result only to code that encrypts, signs, or writes a file with mode 0600. */
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
