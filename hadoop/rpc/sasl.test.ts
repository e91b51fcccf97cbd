import { Buffer } from 'node:buffer';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Secret } from '../../platform/secret.ts';
import type { HadoopMessages } from '../../protos/hadoop-messages.ts';
import { capture, capturedDigests } from '../testing/capture.ts';
import type { Token } from './credentials.ts';
import { encodeFrame } from './frame.ts';
import { decodeMessage, encodeDelimited, splitDelimited } from './messages.ts';
import { SaslClient } from './sasl.ts';

type SaslMessage = HadoopMessages['RpcSaslProto'];

const SASL_HEADER = {
  rpcKind: 'RPC_PROTOCOL_BUFFER',
  rpcOp: 'RPC_FINAL_PACKET',
  callId: -33,
  clientId: new Uint8Array(),
  retryCount: -1,
} as const;
const framed = (message: SaslMessage) =>
  encodeFrame(encodeDelimited('RpcRequestHeaderProto', SASL_HEADER), encodeDelimited('RpcSaslProto', message));
/** This client prefers 3des. The rc4 capture was recorded with a client that preferred rc4. */
const offering = (message: SaslMessage, cipher: string | undefined): SaslMessage => ({
  ...message,
  auths: message.auths.map((offer) => ({
    ...offer,
    challenge: Buffer.from(
      Buffer.from(offer.challenge ?? [])
        .toString()
        .replace(/cipher="[^"]*"/, `cipher="${cipher}"`),
    ),
  })),
});
const messageOfFrame = (frame: Buffer) => decodeMessage('RpcSaslProto', splitDelimited(frame, splitDelimited(frame, 4).next).message);

const someToken: Token = { identifier: Buffer.from('id'), password: new Secret(Buffer.from('password')), kind: 'k', service: '' };

describe.each(Object.entries(capturedDigests))('%s', (name, digest) => {
  const lines = capture(name).filter(({ inside }) => !inside);
  const [, negotiate, methods, initiate, success] = lines.map(({ bytes }) => bytes) as [Buffer, Buffer, Buffer, Buffer, Buffer];
  const token = {
    ...someToken,
    identifier: Buffer.from(digest.identifier, 'hex'),
    password: new Secret(Buffer.from(digest.password, 'hex')),
  };

  test('sends the captured packets byte by byte', () => {
    const sasl = new SaslClient(token, 'auth', () => digest.cnonce);
    expect(framed(sasl.start())).toEqual(negotiate);
    const step = sasl.step(offering(messageOfFrame(methods), digest.cipher));
    if (step.done) {
      throw new Error('done too early');
    }
    expect(framed(step.send)).toEqual(initiate);
    const end = sasl.step(messageOfFrame(success));
    expect(end).toMatchObject({ done: true });
    expect(end.done && end.layer !== null).toBe(digest.qop !== 'auth');
  });

  test('rejects a server that does not know the token, and all of its later messages', () => {
    const sasl = new SaslClient({ ...token, password: new Secret(Buffer.from('other')) }, 'auth', () => digest.cnonce);
    sasl.start();
    sasl.step(messageOfFrame(methods));
    expect(() => sasl.step(messageOfFrame(success))).toThrow('could not prove');
    expect(() => sasl.step(messageOfFrame(success))).toThrow('out of turn');
  });
});

const challenge = Buffer.from('realm="default",nonce="n",qop="auth",charset=utf-8,algorithm=md5-sess');
const auth = { method: 'TOKEN', mechanism: 'DIGEST-MD5', protocol: '', serverId: 'default', challenge };

test.each<[string, SaslMessage, string]>([
  ['requires no authentication', { state: 'SUCCESS', auths: [] }, 'requires no authentication'],
  ['offers SIMPLE only', { state: 'NEGOTIATE', auths: [{ method: 'SIMPLE', mechanism: '' }] }, 'offers SIMPLE'],
  ['offers nothing', { state: 'NEGOTIATE', auths: [] }, 'offers nothing'],
  ['wants another mechanism', { state: 'NEGOTIATE', auths: [{ ...auth, mechanism: 'SCRAM-SHA-256' }] }, 'SCRAM-SHA-256; only DIGEST-MD5'],
  [
    'offers only unknown protection',
    { state: 'NEGOTIATE', auths: [{ ...auth, challenge: Buffer.from('nonce="n",qop="auth-new",algorithm=md5-sess') }] },
    'no supported quality of protection',
  ],
  [
    'offers only weak ciphers',
    { state: 'NEGOTIATE', auths: [{ ...auth, challenge: Buffer.from('nonce="n",qop="auth-conf",cipher="rc4-40",algorithm=md5-sess') }] },
    'no supported quality of protection',
  ],
  ['speaks out of turn', { state: 'CHALLENGE', token: challenge, auths: [] }, 'instead of its methods'],
])('rejects a server that %s', (_, message, text) => {
  const sasl = new SaslClient(someToken, 'auth', () => 'c');
  sasl.start();
  expect(() => sasl.step(message)).toThrow(text);
  expect(() => sasl.step({ state: 'NEGOTIATE', auths: [auth] })).toThrow('out of turn');
});

test.each([
  ['auth', 'auth-int', null],
  ['auth-int', 'auth-conf', null],
  ['auth,auth-int', 'auth-conf', null],
  ['auth,auth-int', 'auth-int', 'auth-int'],
  ['auth-conf', 'auth-int', 'auth-conf'],
  ['auth-conf,auth', 'auth', 'auth-conf'],
] as const)('an offer of %s to a client that requires %s ends with %s', (offered, minimum, chosen) => {
  const sasl = new SaslClient(someToken, minimum, () => 'c');
  sasl.start();
  const text = `realm="default",nonce="n",qop="${offered}",cipher="3des",charset=utf-8,algorithm=md5-sess`;
  const message: SaslMessage = { state: 'NEGOTIATE', auths: [{ ...auth, challenge: Buffer.from(text) }] };
  if (chosen === null) {
    expect(() => sasl.step(message)).toThrow(`hadoop.rpc.protection requires at least ${minimum}`);
    return;
  }
  const step = sasl.step(message);
  if (step.done) {
    throw new Error('done too early');
  }
  expect(Buffer.from(step.send.token ?? []).toString()).toContain(`qop=${chosen}`);
});

test('chooses the token when the server also offers Kerberos', () => {
  const sasl = new SaslClient(someToken, 'auth', () => 'c');
  sasl.start();
  const step = sasl.step({ state: 'NEGOTIATE', auths: [{ method: 'KERBEROS', mechanism: 'GSSAPI' }, auth] });
  expect(step).toMatchObject({ send: { state: 'INITIATE', auths: [{ method: 'TOKEN', protocol: '' }] } });
});

test('accepts a challenge in a separate message', () => {
  const sasl = new SaslClient(someToken, 'auth', () => 'c');
  sasl.start();
  const { challenge: _, ...named } = auth;
  expect(sasl.step({ state: 'NEGOTIATE', auths: [named] })).toEqual({ done: false, send: { state: 'INITIATE', auths: [named] } });
  const step = sasl.step({ state: 'CHALLENGE', token: challenge, auths: [] });
  expect(step).toMatchObject({ send: { state: 'RESPONSE' } });
});

test('no sequence of messages without the proof completes the authentication', () => {
  const states = fc.constantFrom<SaslMessage['state']>('SUCCESS', 'NEGOTIATE', 'INITIATE', 'CHALLENGE', 'RESPONSE', 'WRAP');
  const token = fc.oneof(fc.constant(challenge), fc.constant(Buffer.from('rspauth=00')), fc.uint8Array());
  const message: fc.Arbitrary<SaslMessage> = fc.record({ state: states, token, auths: fc.constant([auth]) });
  fc.assert(
    fc.property(fc.array(message, { maxLength: 6 }), (messages) => {
      const sasl = new SaslClient(someToken, 'auth', () => 'c');
      sasl.start();
      for (const item of messages) {
        try {
          expect(sasl.step(item).done).toBe(false);
        } catch (error) {
          expect(error).toBeInstanceOf(Error);
          expect(() => sasl.step(item)).toThrow('out of turn');
        }
      }
    }),
  );
});
