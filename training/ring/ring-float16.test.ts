import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decodeHalf, encodeHalf, halfKernels, plainHalfKernels } from './ring-float16.ts';
import { createMemory } from './wasm.ts';

test('every float16 survives conversion to float32 and back', () => {
  for (let half = 0; half < 0x10000; half++) {
    const value = decodeHalf(half);
    const isNoNumber = (half & 0x7c00) === 0x7c00 && (half & 0x3ff) !== 0;
    expect(encodeHalf(value)).toBe(isNoNumber ? 0x7e00 : half);
  }
});

test('a float32 becomes the nearest float16, with ties to even', () => {
  // 1 + 2^-11 is halfway between the float16 values 1 and 1 + 2^-10.
  expect(encodeHalf(1)).toBe(0x3c00);
  expect(encodeHalf(1 + 2 ** -11)).toBe(0x3c00);
  expect(encodeHalf(1 + 3 * 2 ** -11)).toBe(0x3c02);
  expect(encodeHalf(-(1 + 2 ** -11 + 2 ** -20))).toBe(0xbc01);
  expect(encodeHalf(0.1)).toBe(0x2e66);
  expect(encodeHalf(2 ** -24)).toBe(1);
  expect(encodeHalf(2 ** -25)).toBe(0);
  expect(encodeHalf(1.5 * 2 ** -25)).toBe(1);
  expect(encodeHalf(2 ** -14)).toBe(0x400);
  expect(encodeHalf(65_504)).toBe(0x7bff);
  expect(encodeHalf(-1e30)).toBe(0xfbff);
  expect(encodeHalf(Number.POSITIVE_INFINITY)).toBe(0x7c00);
  expect(encodeHalf(Number.NaN)).toBe(0x7e00);
  fc.assert(
    fc.property(fc.float({ noNaN: true, min: -65_504, max: 65_504 }), (value) => {
      const half = encodeHalf(value);
      const error = Math.abs(decodeHalf(half) - value);
      for (const neighbour of [half - 1, half + 1]) {
        if ((neighbour & 0x7fff) < 0x7c00 && neighbour >= 0) {
          expect(error).toBeLessThanOrEqual(Math.abs(decodeHalf(neighbour) - value));
        }
      }
    }),
  );
});

test('SIMD and plain JavaScript write identical bits and change no other memory', () => {
  const someFloats = fc.uint8Array({ minLength: 400, maxLength: 400 });
  fc.assert(
    fc.property(someFloats, fc.integer({ min: 0, max: 50 }), fc.integer({ min: 0, max: 20 }), (bytes, count, at) => {
      const results = [true, false].map((simd) => {
        const memory = createMemory(65_536);
        const kernels = simd ? halfKernels(memory) : plainHalfKernels(memory.buffer);
        const all = new Uint8Array(memory.buffer);
        all.set(bytes, 1024);
        kernels.encode(4096 + at * 2, 1024 + at * 4, count);
        kernels.decode(8192 + at * 4, 1024 + at * 2, count);
        kernels.addHalf(8192 + at * 4, 4096 + at * 2, count);
        // NaN payloads may differ.
        const floats = new Float32Array(memory.buffer, 8192, 200).map((value) => (Number.isNaN(value) ? Number.NaN : value));
        return [...all.subarray(4096, 4296), ...new Uint8Array(floats.buffer)];
      });
      expect(results[0]).toEqual(results[1]);
    }),
  );
  const memory = createMemory(1 << 20);
  const [wide, plain] = [halfKernels(memory), plainHalfKernels(memory.buffer)];
  const halves = new Uint16Array(memory.buffer, 0, 65_536);
  halves.forEach((_, half) => {
    halves[half] = half;
  });
  const floats = new Float32Array(memory.buffer, 1 << 18, 65_536);
  wide.decode(1 << 18, 0, 65_536);
  const expected = Float32Array.from(halves, decodeHalf);
  expect(floats.every((value, half) => Object.is(value, expected[half]))).toBe(true);
  const between = floats.map((value) => value * (1 + 2 ** -11));
  floats.set(between);
  wide.encode(0, 1 << 18, 65_536);
  plain.encode(1 << 17, 1 << 18, 65_536);
  expect(Buffer.compare(Buffer.from(memory.buffer, 0, 1 << 17), Buffer.from(memory.buffer, 1 << 17, 1 << 17))).toBe(0);
});
