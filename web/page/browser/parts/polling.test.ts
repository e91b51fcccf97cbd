import { expect, test } from 'vitest';
import { nextDelay } from './polled-resource.ts';

test('the page polls at its interval while visible, and less often while hidden', () => {
  expect(nextDelay({ everyMs: 2_000, hidden: false, failures: 0 })).toBe(2_000);
  expect(nextDelay({ everyMs: 2_000, hidden: true, failures: 0 })).toBe(16_000);
});

test('the visible page polls less often after each failure, but at least every 30 seconds', () => {
  const delays = [1, 2, 3, 4, 5, 100].map((failures) => nextDelay({ everyMs: 2_000, hidden: false, failures }));
  expect(delays).toEqual([4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
  expect(nextDelay({ everyMs: 5_000, hidden: true, failures: 100 })).toBe(40_000);
});
