import { type CipherGCMTypes, createCipheriv, createDecipheriv, createSecretKey, hkdfSync, type KeyObject } from 'node:crypto';
import type { WireSecurity } from '../../conf/job.ts';

/**
 * How a connection is protected after its handshake, if `wireSecurity` is `authenticated` or `encrypted`. All data is sent in records:
 *
 *   +------------+--------------------+---------------------------+
 *   | length u32 | tag 16 bytes       | body of `length` bytes    |   `length` is big-endian
 *   +------------+--------------------+---------------------------+
 *
 *   encrypted       body = ciphertext of AES-256-GCM
 *   authenticated   body = plaintext; the tag is the GMAC of the body (AES-256-GCM with the body as additional data)
 *   nonce           12 bytes: the direction's IV, with the last 8 bytes XORed with the number of earlier records in this direction
 *
 * A record with an empty body is an alert. The receiver of an invalid record sends an alert before it closes the connection. An alert is
 * the last record in its direction.
 *
 * Both ends count the records, so a tag fails to match if a record was changed, replayed, moved, removed or inserted. The format does not
 * mark the end of a stream, because every protocol that uses it ends with a `bye` frame.
 *
 * Each direction of each connection has its own key. The keys are derived from the job's key and from the HELLO and CHALLENGE frames of the
 * handshake. These frames contain the nonces and ranks of both ends, the generation and `wireSecurity`. The record count is exact up to
 * 2^53, so no record nonce is ever reused. After 10 TB, an attacker can distinguish the ciphertext from random bytes with a probability of
 * less than 2^-49.
 */
export type RecordSecurity = Exclude<WireSecurity, 'none'>;

export const RECORD_HEADER_BYTES = 20;
/**
 * Maximum body length. These lengths were the fastest in measurements: GMAC has a fixed cost for each record, and Node.js allocates a new
 * buffer for each encrypted body, which is slow for buffers of 128 KiB or more.
 */
export const MAX_BODY_BYTES: Readonly<Record<RecordSecurity, number>> = { authenticated: 256 * 1024, encrypted: 64 * 1024 };

const LENGTH_BYTES = 4;
const TAG_BYTES = RECORD_HEADER_BYTES - LENGTH_BYTES;
const KEY_BYTES = 32;
const IV_BYTES = 12;
const CIPHER: CipherGCMTypes = 'aes-256-gcm';

export type Direction = 'from dialer' | 'from acceptor';

/** The key and nonces for one direction of a connection. */
export class RecordKey {
  readonly security: RecordSecurity;
  readonly #key: KeyObject;
  readonly #iv: Buffer;
  readonly #nonce: Buffer;
  #records = 0;

  /** @param transcript the handshake frames authenticated by both ends. */
  constructor(security: RecordSecurity, key: Uint8Array, transcript: Uint8Array, direction: Direction) {
    const material = Buffer.from(hkdfSync('sha256', key, transcript, `tony wire ${security} ${direction}`, KEY_BYTES + IV_BYTES));
    this.security = security;
    this.#key = createSecretKey(material.subarray(0, KEY_BYTES));
    this.#iv = Buffer.from(material.subarray(KEY_BYTES));
    this.#nonce = Buffer.from(this.#iv);
    material.fill(0);
  }

  /** Returns the next record's header and body. With `authenticated`, the body is `parts` itself, not a copy. */
  seal(parts: readonly Uint8Array[]): { readonly header: Buffer; readonly body: readonly Uint8Array[] } {
    const cipher = createCipheriv(CIPHER, this.#key, this.#nextNonce(), { authTagLength: TAG_BYTES });
    let body = parts;
    if (this.security === 'authenticated') {
      for (const part of parts) {
        cipher.setAAD(part);
      }
    } else {
      body = parts.map((part) => cipher.update(part));
    }
    cipher.final();
    const header = Buffer.allocUnsafe(RECORD_HEADER_BYTES);
    header.writeUInt32BE(body.reduce((sum, { length }) => sum + length, 0));
    header.set(cipher.getAuthTag(), LENGTH_BYTES);
    return { header, body };
  }

  /**
   * Verifies the next record. Returns the plaintext, or null if the record is not the sender's next record. With `authenticated`, the
   * plaintext is `body` itself.
   */
  open(header: Uint8Array, body: Uint8Array): Uint8Array | null {
    const decipher = createDecipheriv(CIPHER, this.#key, this.#nextNonce(), { authTagLength: TAG_BYTES });
    decipher.setAuthTag(header.subarray(LENGTH_BYTES, RECORD_HEADER_BYTES));
    let plaintext = body;
    if (this.security === 'authenticated') {
      decipher.setAAD(body);
    } else {
      plaintext = decipher.update(body);
    }
    try {
      decipher.final();
    } catch {
      return null;
    }
    return plaintext;
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
export function bodyLength(header: Buffer, security: RecordSecurity): number | null {
  const length = header.readUInt32BE(0);
  return length > MAX_BODY_BYTES[security] ? null : length;
}
