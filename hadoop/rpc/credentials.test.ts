import { Buffer } from 'node:buffer';
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { TonyError } from '../../platform/errors.ts';
import { Secret } from '../../platform/secret.ts';
import {
  type Credentials,
  credentialsForTasks,
  decodeCredentials,
  decodeTokenUrl,
  encodeCredentials,
  encodeTokenUrl,
  findToken,
  MASTER_TOKEN_KIND,
  messageOfToken,
} from './credentials.ts';
import { encodeDelimited } from './messages.ts';

const golden = (name: string) => readFileSync(new URL(`../golden/${name}`, import.meta.url));

/** Includes the secrets in comparisons. */
const plain = (credentials: Credentials) => ({
  tokens: credentials.tokens.map(({ alias, token }) => {
    const { identifier, password, kind, service } = messageOfToken(token);
    return { alias, identifier: Buffer.from(identifier).toString('hex'), password: Buffer.from(password).toString('hex'), kind, service };
  }),
  secrets: [...credentials.secrets].map(([alias, secret]) => [alias, Buffer.from(secret.reveal()).toString('hex')]),
});

test.each(['container_tokens.v0', 'container_tokens.v1'])("%s contains the ApplicationMaster's token", (name) => {
  const credentials = decodeCredentials(golden(name));
  const expected = JSON.parse(golden('container_tokens.json').toString()) as { tokens: { identifier: string; password: string }[] };
  expect(credentials.tokens).toHaveLength(1);
  const token = findToken(credentials, MASTER_TOKEN_KIND);
  expect(Buffer.from(token?.identifier ?? []).toString('base64')).toBe(expected.tokens[0]?.identifier);
  expect(Buffer.from(token?.password.reveal() ?? []).toString('base64')).toBe(expected.tokens[0]?.password);
  expect(token?.service).toBe('');
  expect(credentials.tokens[0]?.alias).toBe('');
});

test("decodes both formats of Java's own writer to the same credentials", () => {
  const writable = decodeCredentials(golden('java-written.v0'));
  expect(plain(writable)).toEqual(plain(decodeCredentials(golden('java-written.v1'))));
  expect(writable.tokens).toHaveLength(2);
  expect(writable.secrets.size).toBe(1);
  expect([...writable.secrets.keys()][0]).toMatch(/[^\0-\x7f]/);
});

test.each(['container_tokens.v0', 'java-written.v0'])('re-encodes %s to the same bytes', (name) => {
  expect(encodeCredentials(decodeCredentials(golden(name)))).toEqual(golden(name));
});

const text = fc.string({ unit: 'grapheme', maxLength: 20 });
const anyCredentials: fc.Arbitrary<Credentials> = fc.record({
  tokens: fc.array(
    fc.record({
      alias: text,
      token: fc.record({
        identifier: fc.uint8Array({ maxLength: 300 }),
        password: fc.uint8Array().map((bytes) => new Secret(bytes)),
        kind: text,
        service: text,
      }),
    }),
    { maxLength: 4 },
  ),
  secrets: fc
    .array(
      fc.tuple(
        text,
        fc.uint8Array().map((bytes) => new Secret(bytes)),
      ),
      { maxLength: 4 },
    )
    .map((entries) => new Map(entries)),
});

test('restores written credentials in both formats', () => {
  fc.assert(
    fc.property(anyCredentials, (credentials) => {
      expect(plain(decodeCredentials(encodeCredentials(credentials)))).toEqual(plain(credentials));
      const proto = encodeDelimited('CredentialsProto', {
        tokens: credentials.tokens.map(({ alias, token }) => ({ alias, token: messageOfToken(token) })),
        secrets: [...credentials.secrets].map(([alias, secret]) => ({ alias, secret: secret.reveal() })),
      });
      expect(plain(decodeCredentials(Buffer.concat([Buffer.from('HDTS\x01'), proto])))).toEqual(plain(credentials));
    }),
  );
});

test('decodes truncated or damaged bytes, or rejects them with a TonyError', () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.uint8Array({ maxLength: 100 }),
        fc
          .tuple(fc.constantFrom(0, 1), fc.uint8Array({ maxLength: 100 }))
          .map(([format, body]) => Buffer.from([72, 68, 84, 83, format, ...body])),
      ),
      (bytes) => {
        try {
          decodeCredentials(bytes);
        } catch (error) {
          expect(error).toBeInstanceOf(TonyError);
          expect(error).toMatchObject({ code: 'CREDENTIALS_INVALID' });
        }
      },
    ),
  );
  for (const name of ['java-written.v0', 'java-written.v1']) {
    const whole = golden(name);
    for (let length = 0; length < whole.length; length++) {
      expect(() => decodeCredentials(whole.subarray(0, length))).toThrow(TonyError);
    }
  }
});

test("gives a task its own secrets and the delegation tokens, but none of the ApplicationMaster's credentials", () => {
  const master = decodeCredentials(golden('container_tokens.v0'));
  const other = decodeCredentials(golden('java-written.v0'));
  const ofUser = { alias: 'rm', token: { ...(other.tokens[0] as (typeof other.tokens)[0]).token, kind: 'RM_DELEGATION_TOKEN' } };
  const credentials = {
    tokens: [...master.tokens, ofUser, ...other.tokens],
    secrets: new Map([['tony.job', new Secret(Buffer.from('job'))]]),
  };
  const forTask = credentialsForTasks(credentials, new Map([['tony.ring', new Secret(Buffer.from('ring'))]]));
  expect(forTask.tokens).toEqual(other.tokens.filter(({ token }) => token.kind !== MASTER_TOKEN_KIND));
  expect([...forTask.secrets.keys()]).toEqual(['tony.ring']);
});

test('restores a token from a URL, and rejects malformed ones', () => {
  for (const { token } of decodeCredentials(golden('java-written.v0')).tokens) {
    expect(decodeTokenUrl(encodeTokenUrl(token))).toEqual(token);
    expect(encodeTokenUrl(token)).toMatch(/^[\w-]+$/);
  }
  expect(() => decodeTokenUrl('a b')).toThrow(TonyError);
  expect(() => decodeTokenUrl('AAAAAAAA')).toThrow(TonyError);
});
