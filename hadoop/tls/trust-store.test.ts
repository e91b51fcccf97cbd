import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { TonyError } from '../../platform/errors.ts';
import { readPemFile, readTrustStore } from './trust-store.ts';

/** Truststores created with Java 17's keytool; the password is secret1. truststore-rc2.p12 uses the cipher that older Java versions use. */
const golden = (name: string): string => fileURLToPath(new URL(`../golden/tls/${name}`, import.meta.url));
const AUTHORITY = await readFile(golden('ca.pem'), 'utf8');

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tony-ts-trust-store-test-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

async function complaint(reading: Promise<string>): Promise<string> {
  const error: unknown = await reading.catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(TonyError);
  const { code, message, hint } = error as TonyError;
  expect(code).toBe('TRUST_STORE_UNREADABLE');
  return `${message} ${hint}`;
}

test.each(['truststore.jks', 'truststore.p12', 'truststore-rc2.p12', 'ca.pem'])('reads %s', async (name) => {
  expect(await readTrustStore({ location: golden(name), password: 'secret1' })).toBe(AUTHORITY);
});

test('the certificates of a JKS file can be read without its password', async () => {
  expect(await readTrustStore({ location: golden('truststore.jks'), password: null })).toBe(AUTHORITY);
});

test.each(['truststore.jks', 'truststore.p12'])('a wrong password for %s is reported', async (name) => {
  const location = golden(name);
  expect(await complaint(readTrustStore({ location, password: 'secret2' }))).toBe(
    `The trusted certificates in ${location} cannot be read: the password is wrong, or the file has been altered. Correct ssl.client.truststore.password in the ssl-client.xml of HADOOP_CONF_DIR.`,
  );
});

test('a PKCS12 file needs its password', async () => {
  const found = await complaint(readTrustStore({ location: golden('truststore.p12'), password: null }));
  expect(found).toContain('a PKCS12 truststore needs a password. Set ssl.client.truststore.password');
});

test('a missing file and files of other formats are reported', async () => {
  const missing = join(folder, 'none.jks');
  expect(await complaint(readTrustStore({ location: missing, password: null }))).toContain(
    `${missing} cannot be read: no such file or directory. Correct the path`,
  );
  const other = join(folder, 'other');
  await writeFile(other, 'no certificate');
  expect(await complaint(readTrustStore({ location: other, password: null }))).toContain(
    'it contains no certificate. Use a truststore in JKS or PKCS12 format. Export',
  );
  expect(await complaint(readPemFile(other))).toContain('it contains no certificate. Name a PEM file');
  await writeFile(other, Buffer.from([0x30, 0x03, 0x02, 0x01, 0x00]));
  expect(await complaint(readTrustStore({ location: other, password: 'x' }))).toContain('openssl reports');
});
