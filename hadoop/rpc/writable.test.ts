import { Buffer } from 'node:buffer';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { WritableReader, writeBytes, writeText, writeVInt } from './writable.ts';

test('a VInt can be written and read back', () => {
  fc.assert(
    fc.property(fc.oneof(fc.integer(), fc.integer({ min: -300, max: 300 })), (value) => {
      const reader = new WritableReader(writeVInt(value));
      expect(reader.vInt()).toBe(value);
      expect(reader.remaining).toBe(0);
    }),
  );
});

// Encodes a VInt like org.apache.hadoop.io.WritableUtils.writeVInt.
test.each([
  [0, '00'],
  [127, '7f'],
  [-112, '90'],
  [128, '8f80'],
  [255, '8fff'],
  [256, '8e0100'],
  [-113, '8770'],
  [2 ** 31 - 1, '8c7fffffff'],
  [-(2 ** 31), '847fffffff'],
])('writes %i as Java does', (value, hex) => {
  expect(writeVInt(value).toString('hex')).toBe(hex);
});

test('text and bytes can be written and read back', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.uint8Array(), (text, bytes) => {
      const reader = new WritableReader(Buffer.concat([writeText(text), writeBytes(bytes)]));
      expect(reader.text()).toBe(text);
      expect([...reader.bytes()]).toEqual([...bytes]);
    }),
  );
});

test.each([
  ['a number beyond 32 bits', '88ffffffffffffffff', (reader: WritableReader) => reader.vInt()],
  ['a negative length', 'ff', (reader: WritableReader) => reader.bytes()],
  ['a length beyond the end', '7f00', (reader: WritableReader) => reader.bytes()],
  ['a count of more than can follow', '8c7fffffff', (reader: WritableReader) => reader.count(1)],
])('rejects %s before allocating memory', (_, hex, read) => {
  expect(() => read(new WritableReader(Buffer.from(hex, 'hex')))).toThrow(RangeError);
});

test('rejects text that is not UTF-8', () => {
  expect(() => new WritableReader(Buffer.from('02c328', 'hex')).text()).toThrow();
});
