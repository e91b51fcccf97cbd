import fc from 'fast-check';
import { expect, test } from 'vitest';
import { editDistance, suggest } from './suggest.ts';

test('suggests the most similar word, or nothing if no word is similar enough', () => {
  expect(suggest('qeue', ['name', 'queue'])).toBe('queue');
  expect(suggest('Instances', ['instances'])).toBe('instances');
  expect(suggest('zebra', ['name', 'queue'])).toBeUndefined();
  expect(suggest('x', [])).toBeUndefined();
});

test('the edit distance is symmetric, zero only between equal words, and bounded by the longer word', () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 12 }), fc.string({ maxLength: 12 }), (a, b) => {
      const distance = editDistance(a, b);
      expect(distance).toBe(editDistance(b, a));
      expect(distance === 0).toBe(a === b);
      expect(distance).toBeLessThanOrEqual(Math.max(a.length, b.length));
    }),
  );
});
