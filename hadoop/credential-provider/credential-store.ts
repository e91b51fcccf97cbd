import { createDecipheriv, hash } from 'node:crypto';
import { BigEndianReader } from '../tls/big-endian-reader.ts';
import { keyStoreContent, WrongPassword } from '../tls/java-key-store.ts';
import { type JavaObject, readJavaObject } from './java-serialization.ts';

/*
 * Java's key store format JCEKS (com.sun.crypto.provider.JceKeyStore), in which Hadoop's credential providers store passwords. It is the
 * format JKS (see java-key-store.ts) with the magic number 0xCECECECE and one more kind of entry:
 *
 *   entry:  u32 tag 3 (secret key), text alias, u64 ms since the epoch, a serialized javax.crypto.SealedObject
 *
 * The sealed object contains a serialized javax.crypto.spec.SecretKeySpec, whose key is the password in UTF-8. It is encrypted with
 * PBEWithMD5AndTripleDES: for each half of the salt, a chain of MD5 over (previous digest, password) yields 16 bytes. The 32 bytes are a
 * Triple DES key (24 bytes) and an initialization vector (8 bytes).
 */
const MAGIC = 0xcececece;
const [PRIVATE_KEY, TRUSTED_CERTIFICATE, SECRET_KEY] = [1, 2, 3];
const ALGORITHM = 'PBEWithMD5AndTripleDES';
/** The maximum iteration count, which protects against crafted files. Java uses 200,000. */
const MAXIMUM_ITERATIONS = 5_000_000;
const SALT_BYTES = 8;

/** A store's credentials, keyed by alias. Each value is a function that decrypts one credential. */
export type CredentialStore = ReadonlyMap<string, () => string>;

/**
 * Reads a JCEKS key store.
 * @throws RangeError for a damaged file, WrongPassword
 */
export function readCredentialStore(bytes: Buffer, password: string): CredentialStore {
  const reader = new BigEndianReader(keyStoreContent(bytes, null));
  const [magic, version] = [reader.u32(), reader.u32()];
  if (magic !== MAGIC || version !== 2) {
    throw new RangeError('it is not a JCEKS key store');
  }
  keyStoreContent(bytes, password);
  const found = new Map<string, () => string>();
  for (let left = reader.u32(); left > 0; left -= 1) {
    const tag = reader.u32();
    const alias = reader.text();
    reader.skip(8);
    if (tag === SECRET_KEY) {
      const sealed = readJavaObject(reader);
      found.set(alias, () => unseal(sealed, password));
    } else if (tag === PRIVATE_KEY || tag === TRUSTED_CERTIFICATE) {
      skipCertificates(reader, tag);
    } else {
      throw new RangeError(`an entry has the unknown tag ${tag}`);
    }
  }
  return found;
}

function skipCertificates(reader: BigEndianReader, tag: number): void {
  if (tag === PRIVATE_KEY) {
    reader.bytes();
  }
  for (let left = tag === PRIVATE_KEY ? reader.u32() : 1; left > 0; left -= 1) {
    reader.text();
    reader.bytes();
  }
}

function unseal({ fields }: JavaObject, password: string): string {
  const algorithm = fields.get('sealAlg');
  if (algorithm !== ALGORITHM) {
    throw new RangeError(`a credential is encrypted with ${String(algorithm)}`);
  }
  // Parameters: SEQUENCE { OCTET STRING salt, INTEGER iterations }
  const parameters = new BigEndianReader(new BigEndianReader(bytesOf(fields.get('encodedParams'))).der(0x30));
  const salt = parameters.der(0x04);
  const count = parameters.der(0x02);
  const iterations = count.length <= 6 ? Number(`0x${count.toString('hex')}`) : Number.POSITIVE_INFINITY;
  if (salt.length !== SALT_BYTES || !(iterations >= 1 && iterations <= MAXIMUM_ITERATIONS)) {
    throw new RangeError('the encryption parameters for a credential are out of range');
  }
  const derived = deriveKey(salt, password, iterations);
  const decipher = createDecipheriv('des-ede3-cbc', derived.subarray(0, 24), derived.subarray(24));
  let plain: Buffer;
  try {
    plain = Buffer.concat([decipher.update(bytesOf(fields.get('encryptedContent'))), decipher.final()]);
  } catch {
    throw new WrongPassword();
  }
  const { fields: key } = readJavaObject(new BigEndianReader(plain));
  return bytesOf(key.get('key')).toString('utf8');
}

function deriveKey(salt: Buffer, password: string, iterations: number): Buffer {
  const secret = Buffer.from(password, 'latin1');
  const halves = [Buffer.from(salt.subarray(0, SALT_BYTES / 2)), salt.subarray(SALT_BYTES / 2)] as const;
  if (halves[0].equals(halves[1])) {
    // Reproduces a bug in Java, which should reverse the first half but overwrites bytes before it has moved them.
    const [a = 0, b = 0, , d = 0] = halves[0];
    halves[0].set([d, a, b, d]);
  }
  return Buffer.concat(
    halves.map((half) => {
      let digest: Buffer = half;
      for (let left = iterations; left > 0; left -= 1) {
        digest = hash('md5', Buffer.concat([digest, secret]), 'buffer');
      }
      return digest;
    }),
  );
}

function bytesOf(value: unknown): Buffer {
  if (!Buffer.isBuffer(value)) {
    throw new RangeError('a credential lacks a field');
  }
  return value;
}
