import fc from 'fast-check';
import { expect, test } from 'vitest';
import { PlainNumbers } from './plain-number.ts';

const read = (text: string, from = 0) => {
  const numbers = new PlainNumbers();
  return { number: numbers.read(Buffer.from(text), from), end: numbers.end };
};

test('a plain number is the one that JavaScript reads', () => {
  const digits = fc.stringMatching(/^\d{0,15}$/);
  fc.assert(
    fc.property(digits, digits, fc.boolean(), fc.boolean(), (before, after, isNegative, hasPoint) => {
      const text = `${isNegative ? '-' : ''}${before}${hasPoint ? `.${after}` : ''}`;
      const count = before.length + (hasPoint ? after.length : 0);
      const expected = count === 0 || count > 15 ? Number.NaN : Number(text);
      expect(read(`x,${text},1`, 2)).toEqual({ number: expected, end: 2 + text.length });
    }),
    { numRuns: 2000 },
  );
});

test.each([
  ['1e5', 1, 1],
  ['1.2.3', 1.2, 3],
  ['0x1F', 0, 1],
  ['12 ', 12, 2],
  ['-0', -0, 2],
  ['.5', 0.5, 2],
  ['5.', 5, 2],
  ['.', Number.NaN, 1],
  ['-', Number.NaN, 1],
  ['+1', Number.NaN, 0],
  ['inf', Number.NaN, 0],
  ['', Number.NaN, 0],
])('reading %j ends where a plain number ends', (text, number, end) => {
  expect(read(text)).toEqual({ number, end });
});
