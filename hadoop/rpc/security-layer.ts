import { Buffer } from 'node:buffer';
import { createCipheriv, createDecipheriv, createHmac } from 'node:crypto';
import { sameSecret } from '../../platform/same-secret.ts';
import type { Cipher, LayerKeys } from './digest-md5.ts';

/**
 * Returns a function that encrypts or decrypts with RC4. Each call continues the key stream of the previous call. OpenSSL 3 disables RC4 by
 * default.
 */
export function rc4(key: Uint8Array): (bytes: Uint8Array) => Buffer {
  const state = Uint8Array.from({ length: 256 }, (_, index) => index);
  const at = (index: number) => state[index] as number;
  const swap = (one: number, other: number) => {
    const kept = at(one);
    state[one] = at(other);
    state[other] = kept;
  };
  for (let i = 0, j = 0; i < 256; i++) {
    j = (j + at(i) + (key[i % key.length] as number)) & 0xff;
    swap(i, j);
  }
  let i = 0;
  let j = 0;
  return (bytes) => {
    const output = Buffer.allocUnsafe(bytes.length);
    for (let index = 0; index < bytes.length; index++) {
      i = (i + 1) & 0xff;
      j = (j + at(i)) & 0xff;
      swap(i, j);
      output[index] = (bytes[index] as number) ^ at((at(i) + at(j)) & 0xff);
    }
    return output;
  };
}

/*
 * The security layer of DIGEST-MD5 (RFC 2831, sections 2.3 and 2.4) wraps each message in a token:
 *
 *   auth-int    message | mac 10 | 00 01 | sequence 4
 *   auth-conf   encrypted( message | pad | mac 10 ) | 00 01 | sequence 4
 *
 *   mac = first 10 bytes of HMAC-MD5(key, sequence | message)
 *
 * Each direction has its own big-endian sequence numbers, starting at 0. Cipher states and sequence numbers continue across messages, so
 * each side detects missing and replayed tokens.
 */
const MAC_BYTES = 10;
const TRAILER_BYTES = 6;
const BLOCK_BYTES = 8;
/** Maximum number of bytes that `wrap` adds to a piece of a message. */
const OVERHEAD_BYTES = 40;

export interface SecurityLayer {
  /** Returns one or more tokens that contain these bytes. They must be sent in order. */
  wrap(bytes: Uint8Array): Buffer[];
  /** Returns the content of the peer's next token. Throws an Error for any other token. */
  unwrap(token: Uint8Array): Buffer;
}

interface Sealing {
  pad(length: number): number;
  encrypt(bytes: Buffer): Buffer;
  decrypt(bytes: Buffer): Buffer;
}

/**
 * Creates the client side of the security layer. To obtain the server side, swap the keys. If `cipher` is null, messages are signed but not
 * encrypted.
 */
export function securityLayer(keys: LayerKeys, cipher: Cipher | null, peerMaxBuffer: number): SecurityLayer {
  const sealing = cipher === null ? null : sealingOf(cipher, keys);
  const pieceBytes = Math.max(1, Math.min(peerMaxBuffer, 65_536) - OVERHEAD_BYTES);
  let sent = 0;
  let received = 0;
  return {
    wrap(bytes) {
      const tokens: Buffer[] = [];
      for (let offset = 0; offset < bytes.length; offset += pieceBytes) {
        const message = bytes.subarray(offset, offset + pieceBytes);
        const sequence = sequenceBytes(sent++);
        const pad = sealing === null ? 0 : sealing.pad(message.length);
        const body = Buffer.concat([message, Buffer.alloc(pad, pad), mac(keys.clientIntegrity, sequence, message)]);
        tokens.push(Buffer.concat([sealing === null ? body : sealing.encrypt(body), Buffer.from([0, 1]), sequence]));
      }
      return tokens;
    },
    unwrap(token) {
      if (token.length < MAC_BYTES + TRAILER_BYTES) {
        throw new Error('a protected message is too short');
      }
      const trailer = token.subarray(token.length - TRAILER_BYTES);
      const sequence = sequenceBytes(received++);
      if (trailer[0] !== 0 || trailer[1] !== 1) {
        throw new Error('a protected message has an unknown type');
      }
      if (!sequence.equals(trailer.subarray(2))) {
        throw new Error('a protected message is out of order');
      }
      const sealed = Buffer.from(token.subarray(0, token.length - TRAILER_BYTES));
      const body = sealing === null ? sealed : sealing.decrypt(sealed);
      const padded = body.subarray(0, body.length - MAC_BYTES);
      const message = sealing === null ? padded : withoutPad(padded, sealing);
      if (message === null || !sameSecret(mac(keys.serverIntegrity, sequence, message), body.subarray(body.length - MAC_BYTES))) {
        throw new Error('a protected message has a wrong checksum');
      }
      return message;
    },
  };
}

function sequenceBytes(sequence: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(sequence % 2 ** 32);
  return bytes;
}

function mac(key: Buffer, sequence: Buffer, message: Uint8Array): Buffer {
  return createHmac('md5', key).update(sequence).update(message).digest().subarray(0, MAC_BYTES);
}

function withoutPad(padded: Buffer, sealing: Sealing): Buffer | null {
  if (sealing.pad(0) === 0) {
    return padded;
  }
  const pad = padded[padded.length - 1] ?? 0;
  if (pad < 1 || pad > BLOCK_BYTES || pad > padded.length) {
    return null;
  }
  return padded.subarray(0, padded.length - pad);
}

function sealingOf(cipher: Cipher, keys: LayerKeys): Sealing {
  switch (cipher) {
    case 'rc4':
      return { pad: () => 0, encrypt: rc4(keys.clientSealing), decrypt: rc4(keys.serverSealing) };
    case '3des': {
      const encryptor = createCipheriv('des-ede3-cbc', desKeys(keys.clientSealing), keys.clientSealing.subarray(8)).setAutoPadding(false);
      const decryptor = createDecipheriv('des-ede3-cbc', desKeys(keys.serverSealing), keys.serverSealing.subarray(8)).setAutoPadding(false);
      return {
        pad: (length) => BLOCK_BYTES - ((length + MAC_BYTES) % BLOCK_BYTES),
        encrypt: (bytes) => encryptor.update(bytes),
        decrypt: (bytes) => {
          if (bytes.length % BLOCK_BYTES !== 0) {
            throw new Error('a protected message ends within a block');
          }
          return decryptor.update(bytes);
        },
      };
    }
  }
}

/** Returns the keys K1, K2 and K1 of two-key Triple DES. K1 and K2 are each derived from 7 bytes of the sealing key. */
function desKeys(sealing: Buffer): Buffer {
  const first = spread(sealing.subarray(0, 7));
  return Buffer.concat([first, spread(sealing.subarray(7, 14)), first]);
}

/** Expands 7 bytes to 8 bytes, each with 7 key bits and an odd parity bit. */
function spread(bytes: Buffer): Buffer {
  const bits = [...bytes].reduce((value, byte) => (value << 8n) | BigInt(byte), 0n);
  return Buffer.from(
    Array.from({ length: 8 }, (_, index) => {
      const seven = Number((bits >> BigInt(49 - 7 * index)) & 0x7fn);
      let parity = 1;
      for (let rest = seven; rest > 0; rest >>= 1) {
        parity ^= rest & 1;
      }
      return (seven << 1) | parity;
    }),
  );
}
