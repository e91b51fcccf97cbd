import { Buffer } from 'node:buffer';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { capturedDigests } from '../testing/capture.ts';
import { type DigestInput, digestProof, digestResponse, layerKeys, parseChallenge, parseDirectives, sessionKey } from './digest-md5.ts';

describe.each(Object.entries(capturedDigests))('%s', (_, captured) => {
  const challenge = parseChallenge(Buffer.from(captured.challenge));
  const input: DigestInput = {
    user: captured.username,
    password: captured.passwordText,
    realm: challenge.realm,
    nonce: challenge.nonce,
    cnonce: captured.cnonce,
    uri: captured.digestUri,
    qop: captured.qop,
  };
  const ha1 = sessionKey(input);

  test('computes the captured session key and response', () => {
    expect(ha1.toString('hex')).toBe(captured.HA1raw);
    expect(digestResponse(ha1, input, captured.cipher ?? null)).toBe(captured.clientResponse);
  });

  test('computes the captured proof of the server', () => {
    expect(`rspauth=${digestProof(ha1, input, '')}`).toBe(captured.serverFinal);
  });

  if (captured.kic === undefined) {
    return;
  }
  test('derives the captured keys of the security layer', () => {
    const keys = layerKeys(ha1);
    expect(keys.clientIntegrity.toString('hex')).toBe(captured.kic);
    expect(keys.serverIntegrity.toString('hex')).toBe(captured.kis);
  });
});

test('keeps the supported values of a challenge, in the order in which the server lists them', () => {
  const challenge = parseChallenge(
    Buffer.from('realm="default",nonce="n",qop="auth-conf,auth-new,auth",cipher="des,rc4,3des",algorithm=md5-sess,maxbuf=4096'),
  );
  expect(challenge).toEqual({ realm: 'default', nonce: 'n', qops: ['auth-conf', 'auth'], ciphers: ['3des', 'rc4'], maxBuffer: 4096 });
});

test.each([
  ['no nonce', 'realm="default",algorithm=md5-sess', 'nonce'],
  ['another algorithm', 'nonce="n",algorithm=md5', 'algorithm md5'],
  ['a repeated directive', 'nonce="n",nonce="m",algorithm=md5-sess', 'twice'],
  ['an unclosed quote', 'nonce="n,algorithm=md5-sess', 'malformed'],
  ['too small a buffer', 'nonce="n",algorithm=md5-sess,maxbuf=16', 'maxbuf'],
  ['more than the maximum length', `nonce="${'n'.repeat(2048)}",algorithm=md5-sess`, 'longer'],
])('rejects a challenge with %s', (_, text, message) => {
  expect(() => parseChallenge(Buffer.from(text))).toThrow(message);
});

const quoted = (text: string) => `"${text.replace(/[\\"]/g, '\\$&')}"`;

test('parses written directives back unchanged', () => {
  const name = fc.stringMatching(/^[a-z][a-z-]{0,9}$/);
  const token = fc.stringMatching(/^[\w.+-]{1,10}$/);
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.record({ name, value: fc.oneof(token, fc.string()), bare: fc.boolean() }), {
        selector: (item) => item.name,
        maxLength: 6,
      }),
      (items) => {
        const text = items.map(({ name, value, bare }) => `${name}=${bare && /^[\w.+-]+$/.test(value) ? value : quoted(value)}`).join(', ');
        expect([...parseDirectives(text)]).toEqual(items.map(({ name, value }) => [name, value]));
      },
    ),
  );
});

test('parses any bytes as a challenge, or rejects them with an Error', () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.uint8Array().map((bytes) => Buffer.from(bytes)),
        fc.string({ maxLength: 2048 }).map((text) => Buffer.from(text)),
      ),
      (bytes) => {
        try {
          parseChallenge(bytes);
        } catch (error) {
          expect(error).toBeInstanceOf(Error);
        }
      },
    ),
  );
});

/** Lists as long as a challenge may be. A backtracking parser would need a very long time to reject them. */
test.each([
  ['an unclosed quote before backslashes', 'a="'.padEnd(2048, '\\')],
  ['no commas', 'a=b '.repeat(512)],
  ['a quote after blanks', `a=${' '.repeat(2000)}"`],
])('rejects a list of directives with %s', (_, text) => {
  expect(() => parseDirectives(text)).toThrow('malformed');
});

test.each([' ', ','])('finds no directives in a list that repeats only %j', (text) => {
  expect(parseDirectives(text.repeat(2047)).size).toBe(0);
});
