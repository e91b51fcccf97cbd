import { expect, test } from 'vitest';
import { FrameHeader } from './frame-header.ts';

const header = new FrameHeader('TNYV', ['sum', 'bye'], 2);

test('a header consists of the magic, the kind and the fields as little-endian uint32', () => {
  expect(header.bytes).toBe(16);
  expect(header.encode('bye', 0xfffffffe, 3).toString('hex')).toBe('544e5956' + '01000000' + 'feffffff' + '03000000');
  expect(header.decode(header.encode('bye', 0xfffffffe, 3))).toEqual({ kind: 'bye', fields: [0xfffffffe, 3] });
});

test.each([
  ['another magic', '544e5950' + '01000000' + '0000000000000000'],
  ['an unknown kind', '544e5956' + '02000000' + '0000000000000000'],
])('decode returns null for bytes with %s', (_what, hex) => {
  expect(header.decode(Buffer.from(hex, 'hex'))).toBeNull();
});

test('encode throws for a field that is not a uint32', () => {
  expect(() => header.encode('sum', 2 ** 32, 0)).toThrow(RangeError);
});
