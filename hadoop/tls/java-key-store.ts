import { createHash } from 'node:crypto';
import { sameSecret } from '../../platform/same-secret.ts';
import { BigEndianReader } from './big-endian-reader.ts';

/*
 * Java's key store format JKS (sun.security.provider.JavaKeyStore). Integers are big-endian.
 *
 *   u32 0xFEEDFEED, u32 version (1 or 2), u32 number of entries
 *   entry:       u32 tag (1: private key, 2: trusted certificate), text alias, u64 ms since the epoch, then
 *     tag 1:     bytes EncryptedPrivateKeyInfo (DER), u32 number of certificates, certificates from leaf to root
 *     tag 2:     certificate
 *   certificate: text type (version 2 only), bytes DER
 *   text:        u16 length, UTF-8;  bytes: u32 length, content
 *   20 bytes     SHA-1(password in UTF-16BE, "Mighty Aphrodite", all preceding bytes)
 *
 * Private keys are encrypted with the algorithm 1.3.6.1.4.1.42.2.17.1.1 (sun.security.provider.KeyProtector):
 *   20 bytes salt, key XOR stream, 20 bytes SHA-1(password in UTF-16BE, key in PKCS #8)
 *   stream: w1, w2, ...;  w1 = SHA-1(password, salt), wn = SHA-1(password, w(n-1))
 */
const MAGIC = 0xfeedfeed;
const PRIVATE_KEY = 1;
const TRUSTED_CERTIFICATE = 2;
const WHITENER = Buffer.from('Mighty Aphrodite');
const DIGEST_BYTES = 20;

export interface JavaKeyStore {
  readonly trusted: readonly Buffer[];
  readonly keys: readonly ProtectedKey[];
}

export interface ProtectedKey {
  /** EncryptedPrivateKeyInfo in DER format. `privateKeyOf` decrypts it. */
  readonly encrypted: Buffer;
  /** Certificate chain in DER format, from the leaf to the root. */
  readonly chain: readonly Buffer[];
}

export function isJavaKeyStore(bytes: Buffer): boolean {
  return bytes.length >= 4 && bytes.readUInt32BE(0) === MAGIC;
}

/**
 * Reads a JKS file. If there is no password, skips the integrity check, as Java does. The certificates are not encrypted.
 * @throws RangeError for a damaged file, WrongPassword
 */
export function readJavaKeyStore(bytes: Buffer, password: string | null): JavaKeyStore {
  const content = keyStoreContent(bytes, password);
  const reader = new BigEndianReader(content);
  const [magic, version, count] = [reader.u32(), reader.u32(), reader.u32()];
  if (magic !== MAGIC || (version !== 1 && version !== 2)) {
    throw new RangeError('it is not a Java key store');
  }
  const certificate = (): Buffer => {
    if (version === 2) {
      reader.text();
    }
    return reader.bytes();
  };
  const trusted: Buffer[] = [];
  const keys: ProtectedKey[] = [];
  for (let left = count; left > 0; left -= 1) {
    const tag = reader.u32();
    reader.text();
    reader.skip(8);
    if (tag === TRUSTED_CERTIFICATE) {
      trusted.push(certificate());
    } else if (tag === PRIVATE_KEY) {
      const encrypted = reader.bytes();
      const chain: Buffer[] = [];
      for (let links = reader.u32(); links > 0; links -= 1) {
        chain.push(certificate());
      }
      keys.push({ encrypted, chain });
    } else {
      throw new RangeError(`an entry has the unknown tag ${tag}`);
    }
  }
  return { trusted, keys };
}

/**
 * Returns a key store's content without the digest at its end. If there is a password, verifies the digest.
 * @throws WrongPassword
 */
export function keyStoreContent(bytes: Buffer, password: string | null): Buffer {
  const content = bytes.subarray(0, Math.max(0, bytes.length - DIGEST_BYTES));
  if (password !== null) {
    const digest = sha1(utf16(password), WHITENER, content);
    const written = bytes.subarray(content.length);
    if (!sameSecret(written, digest)) {
      throw new WrongPassword();
    }
  }
  return content;
}

/** Thrown if the password for a key store or key is wrong. A modified file causes the same error. */
export class WrongPassword extends Error {
  constructor() {
    super('the password is wrong, or the file has been altered');
  }
}

/**
 * Decrypts a private key from a JKS file. The result is PKCS #8 in DER format.
 * @throws RangeError for a damaged key, WrongPassword
 */
export function privateKeyOf({ encrypted }: ProtectedKey, password: string): Buffer {
  // EncryptedPrivateKeyInfo: SEQUENCE { SEQUENCE (the algorithm), OCTET STRING }
  const outer = new BigEndianReader(new BigEndianReader(encrypted).der(0x30));
  outer.der(0x30);
  const protectedKey = outer.der(0x04);
  if (protectedKey.length <= 2 * DIGEST_BYTES) {
    throw new RangeError('a private key is too short');
  }
  const secret = utf16(password);
  const key = Buffer.from(protectedKey.subarray(DIGEST_BYTES, -DIGEST_BYTES));
  let word: Buffer = protectedKey.subarray(0, DIGEST_BYTES);
  for (let at = 0; at < key.length; at += 1) {
    if (at % DIGEST_BYTES === 0) {
      word = sha1(secret, word);
    }
    key[at] = (key[at] as number) ^ (word[at % DIGEST_BYTES] as number);
  }
  if (!sameSecret(sha1(secret, key), protectedKey.subarray(-DIGEST_BYTES))) {
    throw new WrongPassword();
  }
  return key;
}

function utf16(text: string): Buffer {
  return Buffer.from(text, 'utf16le').swap16();
}

/** JKS uses SHA-1. */
function sha1(...parts: readonly Uint8Array[]): Buffer {
  const hash = createHash('sha1');
  for (const part of parts) {
    hash.update(part);
  }
  return hash.digest();
}
