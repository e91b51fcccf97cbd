import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { readCredentialStore } from './credential-provider.ts';
import { WrongPassword } from './java-key-store.ts';

/**
 * Stores created with Hadoop 3.4.3's `hadoop credential create` on Java 17. One has Hadoop's default password, and the other has the
 * password pass-1.
 */
const golden = (name: string): Promise<Buffer> => readFile(new URL(`../golden/credentials/${name}`, import.meta.url));
const STORE = await golden('default.jceks');

test('reads the passwords that Hadoop stored', () => {
  const store = readCredentialStore(STORE, 'none');
  expect([...store.keys()].sort()).toEqual(['fs.s3a.access.key', 'fs.s3a.secret.key', 'ssl.client.truststore.password']);
  expect(store.get('ssl.client.truststore.password')?.()).toBe('secret1');
  expect(store.get('fs.s3a.secret.key')?.()).toBe('sécret/key+1');
});

test('a store can have its own password', async () => {
  const bytes = await golden('protected.jceks');
  expect(readCredentialStore(bytes, 'pass-1').get('ssl.client.truststore.password')?.()).toBe('secret1');
  expect(() => readCredentialStore(bytes, 'none')).toThrow(WrongPassword);
});

test('a file that ends early or contains other bytes is rejected', () => {
  const rejects = (bytes: Buffer): boolean => {
    try {
      readCredentialStore(bytes, 'none');
      return false;
    } catch (error) {
      return error instanceof RangeError || error instanceof WrongPassword;
    }
  };
  for (let length = 0; length < STORE.length; length += 1) {
    expect(rejects(STORE.subarray(0, length)), `${length} bytes`).toBe(true);
  }
  for (let at = 0; at < STORE.length; at += 1) {
    const altered = Buffer.from(STORE);
    altered.writeUInt8((altered[at] ?? 0) ^ 0x55, at);
    expect(rejects(altered), `byte ${at}`).toBe(true);
  }
});
