import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { curvesByTag, nearest, positive, smoothed } from './curves.ts';

describe('smoothing', () => {
  test('a smoothed curve starts with the first value and follows the trend', () => {
    expect(smoothed([4, 4, 4], 0.9)).toEqual([4, 4, expect.closeTo(4, 12)]);
    // 0.6 of the previous value plus 0.4 of the current value, divided by the sum of the weights.
    expect(smoothed([1, 2], 0.6)).toEqual([expect.closeTo(1, 12), expect.closeTo((0.6 * 0.4 * 1 + 0.4 * 2) / (1 - 0.36), 12)]);
  });

  test('a smoothed curve preserves gaps, and stays between the lowest and the highest value', () => {
    const values = fc.array(fc.option(fc.double({ min: -1e6, max: 1e6, noNaN: true })), { maxLength: 50 });
    fc.assert(
      fc.property(values, fc.double({ min: 0, max: 0.99, noNaN: true }), (given, weight) => {
        const result = smoothed(given, weight);
        const known = given.filter((value) => value !== null);
        expect(result.map((value) => value === null)).toEqual(given.map((value) => value === null));
        for (const value of result) {
          if (value === null) {
            continue;
          }
          expect(value).toBeGreaterThanOrEqual(Math.min(...known) - 1e-3);
          expect(value).toBeLessThanOrEqual(Math.max(...known) + 1e-3);
        }
      }),
    );
  });
});

test('repeated steps replace the earlier ones', () => {
  const run = { name: '.', scalars: [{ tag: 'loss', steps: [1, 2, 3, 4, 3, 5], times: [1, 2, 3, 4, 5, 6], values: [9, 8, 7, 6, 5, 4] }] };
  expect(curvesByTag({ runs: [run], message: '' })[0]?.curves).toEqual([
    { run: '.', steps: [1, 2, 3, 5], times: [1, 2, 5, 6], values: [9, 8, 5, 4] },
  ]);
});

test('loss comes first, then throughput, then the rest by name', () => {
  const tags = ['zeta', 'lr10', 'lr2', 'train/examples_per_second', 'blossom', 'test/acc', 'train/loss'];
  const scalars = tags.map((tag) => ({ tag, steps: [1], times: [1], values: [1] }));
  expect(curvesByTag({ runs: [{ name: 'a', scalars }], message: '' }).map(({ tag }) => tag)).toEqual([
    'train/loss',
    'train/examples_per_second',
    'test/acc',
    'blossom',
    'lr2',
    'lr10',
    'zeta',
  ]);
});

test('a log scale omits zero and negative values', () => {
  expect(positive([1, 0, -2, null, 0.5])).toEqual([1, null, null, null, 0.5]);
});

test('nearest finds the closest of ascending positions', () => {
  expect([-5, 0, 4, 6, 100].map((x) => nearest([0, 5, 10], x))).toEqual([0, 0, 1, 1, 2]);
  expect(nearest([], 3)).toBe(-1);
});
