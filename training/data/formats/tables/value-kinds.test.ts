import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { MICROSECONDS, MILLISECONDS, NANOSECONDS, type ScalarKind, scalarConverter } from './value-kinds.ts';

const int64 = fc.oneof(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), fc.bigInt({ min: -(2n ** 54n), max: 2n ** 54n }));

/** Number() rounds a decimal literal correctly. */
function expectNearest(convert: (stored: unknown) => unknown, stored: unknown, literal: string): void {
  const nearest = Number(literal);
  if (Math.abs(nearest) <= Number.MAX_SAFE_INTEGER) {
    expect(convert(stored)).toBe(nearest + 0);
  } else {
    expect(() => convert(stored)).toThrow('is outside the range in which a number represents every integer exactly');
  }
}

describe('a stored value becomes the nearest number, or an error if integers of its size are not exact', () => {
  test.each([
    ['milliseconds', MILLISECONDS, 0],
    ['microseconds', MICROSECONDS, 3],
    ['nanoseconds', NANOSECONDS, 6],
  ] as const)('%s', (_, kind, digits) => {
    const convert = scalarConverter(kind);
    fc.assert(
      fc.property(int64, (ticks) => {
        expectNearest(convert, ticks, `${ticks}e-${digits}`);
        if (Number.isSafeInteger(Number(ticks))) {
          expectNearest(convert, Number(ticks), `${ticks}e-${digits}`);
        }
      }),
      { numRuns: 2000, examples: [[-(2n ** 63n)], [2n ** 63n - 1n], [0n], [-1n]] },
    );
  });

  test('decimals, from integers and from bytes', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -(10n ** 76n), max: 10n ** 76n }), fc.nat(80), fc.nat(200), (value, scale, shift) => {
        const unscaled = value >> BigInt(shift);
        const convert = scalarConverter({ decimalScale: scale });
        const bytes = Buffer.from(BigInt.asUintN(264, unscaled).toString(16).padStart(66, '0'), 'hex');
        expectNearest(convert, unscaled, `${unscaled}e-${scale}`);
        expectNearest(convert, bytes, `${unscaled}e-${scale}`);
      }),
      { numRuns: 2000 },
    );
  });

  test.each<[ScalarKind, unknown]>([
    ['integer', 2n ** 53n],
    ['integer', -(2n ** 53n)],
    ['uint64', -1n],
    [{ decimalScale: 0 }, 2n ** 53n],
    [{ decimalScale: 2 }, 12_345_678_901_234_567_890n],
  ])('%j refuses %d', (kind, stored) => {
    expect(() => scalarConverter(kind)(stored)).toThrow('represents every integer exactly');
  });
});

test('a decimal of any length and scale takes bounded work', () => {
  expect(() => scalarConverter({ decimalScale: 2 })(new Uint8Array(10_000_000))).toThrow('the maximum is 128');
  expect(scalarConverter({ decimalScale: 2 })(new Uint8Array(0))).toBe(0);
});

test('text that is not UTF-8 is refused with its first wrong byte', () => {
  expect(scalarConverter('text')(Buffer.from('a\ufffdé'))).toBe('a\ufffdé');
  expect(() => scalarConverter('text')(Buffer.from('a\ufffd\xe9', 'latin1'))).toThrow('its byte 1 is 0xfd');
  expect(() => scalarConverter('text')(Buffer.from([0x61, 0xc3]))).toThrow('its byte 1 is 0xc3');
});
