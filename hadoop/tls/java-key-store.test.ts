import { createPrivateKey, createPublicKey, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { type ProtectedKey, privateKeyOf, readJavaKeyStore, WrongPassword } from './java-key-store.ts';

/** Key stores created with Java 17's keytool; the password is secret1. */
const golden = (name: string): Promise<Buffer> => readFile(new URL(`../golden/tls/${name}`, import.meta.url));
const TRUSTED = await golden('truststore.jks');
const KEYS = await golden('keystore.jks');
const AUTHORITY = new X509Certificate(await golden('ca.pem'));

test.each(['secret1', null])('reads trusted certificates with the password %j', (password) => {
  const { trusted, keys } = readJavaKeyStore(TRUSTED, password);
  expect(trusted).toEqual([AUTHORITY.raw]);
  expect(keys).toEqual([]);
});

test('reads a private key and its certificates', () => {
  const { trusted, keys } = readJavaKeyStore(KEYS, 'secret1');
  expect(trusted).toEqual([]);
  const [key, ...others] = keys;
  expect(others).toEqual([]);
  const certificate = new X509Certificate(key?.chain[0] as Buffer);
  expect(certificate.subject).toBe('CN=application_1_0001');
  const found = createPrivateKey({ key: privateKeyOf(key as ProtectedKey, 'secret1'), format: 'der', type: 'pkcs8' });
  expect(createPublicKey(found).equals(certificate.publicKey)).toBe(true);
  expect(() => privateKeyOf(key as ProtectedKey, 'secret2')).toThrow(WrongPassword);
});

test('a wrong password and altered bytes are detected', () => {
  expect(() => readJavaKeyStore(TRUSTED, 'secret2')).toThrow(WrongPassword);
  const altered = Buffer.from(TRUSTED);
  altered.writeUInt8((altered[200] ?? 0) ^ 1, 200);
  expect(() => readJavaKeyStore(altered, 'secret1')).toThrow(WrongPassword);
});

test('a truncated file of any length is rejected', () => {
  for (let length = 0; length < KEYS.length; length += 1) {
    expect(() => readJavaKeyStore(KEYS.subarray(0, length), null)).toThrow(RangeError);
  }
});
