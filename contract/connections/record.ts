import { type CipherGCMTypes, createCipheriv, createDecipheriv, createSecretKey, type KeyObject } from 'node:crypto';
import { type Agreement, deriveKey } from './handshake.ts';

/**
 * How a connection is protected after its handshake if `wire.security` is `authenticated`. All data is sent in records:
 *
 *   +------------+--------------------+---------------------------+
 *   | length u32 | tag 16 bytes       | body of `length` bytes    |   `length` is big-endian
 *   +------------+--------------------+---------------------------+
 *
 *   tag     the GMAC of the body (NIST SP 800-38D: AES-256-GCM without plaintext, with the body as additional data)
 *   nonce   12 bytes: the direction's IV, with the last 8 bytes XORed with the number of earlier records in this direction
 *
 * A record with an empty body is an alert. The receiver of an invalid record sends an alert before it closes the connection. An alert is
 * the last record in its direction.
 *
 * Both ends count the records, so a tag fails to match if a record was changed, replayed, moved, removed or inserted. The format does not
 * mark the end of a stream, because every protocol that uses it ends with a `bye` frame.
 *
 * Each direction of each connection has its own key (see `deriveKey`). The record count is exact up to 2^53, so no nonce is ever reused.
 */

export const RECORD_HEADER_BYTES = 20;
/** Maximum body length. GMAC has a fixed cost for each record, and this length was the fastest in measurements. */
export const MAX_BODY_BYTES = 256 * 1024;

const LENGTH_BYTES = 4;
const TAG_BYTES = RECORD_HEADER_BYTES - LENGTH_BYTES;
const KEY_BYTES = 32;
const IV_BYTES = 12;
const CIPHER: CipherGCMTypes = 'aes-256-gcm';

export type Direction = 'from dialer' | 'from acceptor';

/** The key and nonces for one direction of a connection. */
export class RecordKey {
  readonly #key: KeyObject;
  readonly #iv: Buffer;
  readonly #nonce: Buffer;
  #records = 0;

  constructor(agreement: Agreement, direction: Direction) {
    const material = deriveKey(agreement, `authenticated ${direction}`, KEY_BYTES + IV_BYTES);
    this.#key = createSecretKey(material.subarray(0, KEY_BYTES));
    this.#iv = Buffer.from(material.subarray(KEY_BYTES));
    this.#nonce = Buffer.from(this.#iv);
    material.fill(0);
  }

  /** Returns the header of the next record. The body consists of `parts`, one after the other. */
  seal(parts: readonly Uint8Array[]): Buffer {
    const cipher = createCipheriv(CIPHER, this.#key, this.#nextNonce(), { authTagLength: TAG_BYTES });
    for (const part of parts) {
      cipher.setAAD(part);
    }
    cipher.final();
    const header = Buffer.allocUnsafe(RECORD_HEADER_BYTES);
    header.writeUInt32BE(parts.reduce((sum, { length }) => sum + length, 0));
    header.set(cipher.getAuthTag(), LENGTH_BYTES);
    return header;
  }

  /** Returns true if the record is the sender's next record. */
  verify(header: Uint8Array, body: Uint8Array): boolean {
    const decipher = createDecipheriv(CIPHER, this.#key, this.#nextNonce(), { authTagLength: TAG_BYTES });
    decipher.setAuthTag(header.subarray(LENGTH_BYTES, RECORD_HEADER_BYTES));
    decipher.setAAD(body);
    try {
      decipher.final();
    } catch {
      return false;
    }
    return true;
  }

  #nextNonce(): Buffer {
    const [high, low] = [Math.floor(this.#records / 2 ** 32), this.#records % 2 ** 32];
    this.#nonce.writeUInt32BE((this.#iv.readUInt32BE(4) ^ high) >>> 0, 4);
    this.#nonce.writeUInt32BE((this.#iv.readUInt32BE(8) ^ low) >>> 0, 8);
    this.#records++;
    return this.#nonce;
  }
}

/** Returns the length of a record's body, or null if the header is invalid. An alert has length 0. */
export function bodyLength(header: Buffer): number | null {
  const length = header.readUInt32BE(0);
  return length > MAX_BODY_BYTES ? null : length;
}
