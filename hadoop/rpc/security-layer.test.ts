import { Buffer } from 'node:buffer';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { capture, capturedDigests } from '../testing/capture.ts';
import { type Cipher, type LayerKeys, layerKeys } from './digest-md5.ts';
import { decodeMessage, splitDelimited } from './messages.ts';
import { securityLayer } from './security-layer.ts';

const keys = layerKeys(Buffer.from('00112233445566778899aabbccddeeff', 'hex'));
/** The peer uses the same keys with the directions swapped. */
const peerKeys: LayerKeys = {
  clientIntegrity: keys.serverIntegrity,
  serverIntegrity: keys.clientIntegrity,
  clientSealing: keys.serverSealing,
  serverSealing: keys.clientSealing,
};
const CIPHERS: (Cipher | null)[] = [null, '3des', 'rc4'];

function tokenOf(frame: Buffer): Uint8Array {
  const { next } = splitDelimited(frame, 4);
  return decodeMessage('RpcSaslProto', splitDelimited(frame, next).message).token ?? Buffer.alloc(0);
}

const protectedCaptures = Object.entries(capturedDigests).filter(([, digest]) => digest.qop !== 'auth');

describe.each(protectedCaptures)('%s', (name, digest) => {
  const lines = capture(name);
  const layer = securityLayer(layerKeys(Buffer.from(digest.HA1raw, 'hex')), digest.cipher ?? null, 65_536);

  test('wraps and unwraps the captured messages byte by byte', () => {
    const wrapped: string[] = [];
    const expectedWrapped: string[] = [];
    const unwrapped: string[] = [];
    const expectedUnwrapped: string[] = [];
    lines.forEach((line, index) => {
      if (line.inside && line.from === 'client') {
        wrapped.push(...layer.wrap(line.bytes).map((token) => token.toString('hex')));
        expectedWrapped.push(Buffer.from(tokenOf((lines[index + 1] as typeof line).bytes)).toString('hex'));
      }
      if (line.inside && line.from === 'server') {
        unwrapped.push(layer.unwrap(tokenOf((lines[index - 1] as typeof line).bytes)).toString('hex'));
        expectedUnwrapped.push(line.bytes.toString('hex'));
      }
    });
    expect(wrapped).toEqual(expectedWrapped);
    expect(unwrapped).toEqual(expectedUnwrapped);
    expect([wrapped.length, unwrapped.length]).toEqual([2, 1]);
  });
});

describe.each(CIPHERS)('cipher %s', (cipher) => {
  test('unwraps every wrapped message, in pieces within the maximum size', () => {
    fc.assert(
      fc.property(
        fc.array(fc.uint8Array({ minLength: 1, maxLength: 300 }), { maxLength: 6 }),
        fc.integer({ min: 64, max: 200 }),
        (messages, maxBuffer) => {
          const [here, there] = [securityLayer(keys, cipher, maxBuffer), securityLayer(peerKeys, cipher, maxBuffer)];
          for (const message of messages) {
            const tokens = here.wrap(message);
            expect(Math.max(...tokens.map((token) => token.length))).toBeLessThanOrEqual(maxBuffer);
            expect([...Buffer.concat(tokens.map((token) => there.unwrap(token)))]).toEqual([...message]);
          }
        },
      ),
    );
  });

  test('detects a changed bit at any position', () => {
    const message = Buffer.from('hello, ResourceManager');
    const [token] = securityLayer(keys, cipher, 65_536).wrap(message);
    if (token === undefined) {
      throw new Error('no token');
    }
    for (let bit = 0; bit < token.length * 8; bit++) {
      const damaged = Buffer.from(token);
      damaged[bit >> 3] = (damaged[bit >> 3] as number) ^ (1 << (bit & 7));
      expect(() => securityLayer(peerKeys, cipher, 65_536).unwrap(damaged)).toThrow();
    }
  });

  test('detects repeated, missing and truncated messages', () => {
    const here = securityLayer(keys, cipher, 65_536);
    const [one, two] = [...here.wrap(Buffer.from('one')), ...here.wrap(Buffer.from('two'))] as [Buffer, Buffer];
    const repeated = securityLayer(peerKeys, cipher, 65_536);
    repeated.unwrap(one);
    expect(() => repeated.unwrap(one)).toThrow('order');
    expect(() => securityLayer(peerKeys, cipher, 65_536).unwrap(two)).toThrow('order');
    for (let length = 0; length < one.length; length++) {
      expect(() => securityLayer(peerKeys, cipher, 65_536).unwrap(one.subarray(0, length))).toThrow();
    }
  });
});
