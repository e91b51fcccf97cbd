import { Buffer } from 'node:buffer';
import { expect, test } from 'vitest';
import { rc4 } from './security-layer.ts';

// Test vectors: RFC 6229, 128-bit key, offsets 0 and 16; and a widely used vector with a text key.
test('the key stream matches RFC 6229', () => {
  const stream = rc4(Buffer.from('0102030405060708090a0b0c0d0e0f10', 'hex'));
  expect(stream(Buffer.alloc(16)).toString('hex')).toBe('9ac7cc9a609d1ef7b2932899cde41b97');
  expect(stream(Buffer.alloc(16)).toString('hex')).toBe('5248c4959014126a6e8a84f11d1a9e1c');
});

test('encryption continues over several calls', () => {
  const cipher = rc4(Buffer.from('Key'));
  expect(Buffer.concat([cipher(Buffer.from('Plain')), cipher(Buffer.from('text'))]).toString('hex')).toBe('bbf316e8d940af0ad3');
});
