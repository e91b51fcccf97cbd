import { expect, test } from 'vitest';
import { sameSecret } from './same-secret.ts';

test('compares texts and bytes of any length', () => {
  expect(sameSecret('ab', 'ab')).toBe(true);
  expect(sameSecret('ab', Buffer.from('ab'))).toBe(true);
  expect(sameSecret('ab', 'ac')).toBe(false);
  expect(sameSecret('ab', 'abc')).toBe(false);
  expect(sameSecret('', '')).toBe(true);
});
