import fc from 'fast-check';
import { expect, test } from 'vitest';
import { crc32c, maskedCrc32c, maskedSumsOf, plainCrc32c } from './crc32c.ts';

test.each([
  ['with WebAssembly', crc32c],
  ['without WebAssembly', plainCrc32c],
])('crc32c returns the checksums of the examples in RFC 3720: %s', (_how, sum) => {
  expect(sum(new Uint8Array(32))).toBe(0x8a9136aa);
  expect(sum(new Uint8Array(32).fill(0xff))).toBe(0x62a8ab43);
  expect(sum(Uint8Array.from({ length: 32 }, (_, index) => index))).toBe(0x46dd794e);
  expect(sum(Uint8Array.from({ length: 32 }, (_, index) => 31 - index))).toBe(0x113fdb5c);
  expect(sum(Buffer.from('123456789'))).toBe(0xe3069283);
  // Exceeds the module's window.
  const letters = Buffer.alloc(3_000_000, 'abcdefghijklmnopqrstuvwxyz');
  expect(sum(letters)).toBe(byteByByte(letters));
  expect(sum(new Uint8Array(0))).toBe(0);
});

test('the checksum of any part of a buffer agrees with the definition', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 400 }), fc.nat(400), fc.nat(400), (bytes, a, b) => {
      const [start, end] = [Math.min(a, b, bytes.length), Math.min(Math.max(a, b), bytes.length)];
      const expected = byteByByte(bytes.subarray(start, end));
      expect(crc32c(bytes, start, end)).toBe(expected);
      expect(plainCrc32c(bytes, start, end)).toBe(expected);
      expect(maskedSumsOf(bytes)(start, end)).toBe(maskedCrc32c(bytes, start, end));
    }),
    { numRuns: 500 },
  );
});

test('checksums of several buffers can be computed in any order', () => {
  const pieces = [1, 2, 3].map((fill) => new Uint8Array(1000).fill(fill));
  const sums = pieces.map(maskedSumsOf);
  for (const index of [0, 1, 0, 2, 2, 1]) {
    const piece = pieces[index] as Uint8Array;
    expect(sums[index]?.(index, 900)).toBe(maskedCrc32c(piece, index, 900));
  }
  expect(maskedCrc32c(Buffer.from('123456789'))).toBe(0xc78ab0e5);
});

function byteByByte(bytes: Uint8Array): number {
  let crc = 0xffff_ffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) {
      crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
    }
  }
  return ~crc >>> 0;
}
