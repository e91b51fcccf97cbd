import { expect, test } from 'vitest';
import { allOf } from './all-of.ts';

test('allOf waits for every promise, keeps values, and rejects with the first rejection', async () => {
  expect(await allOf({ a: Promise.resolve(1), b: 'two', c: Promise.resolve(null) })).toEqual({ a: 1, b: 'two', c: null });
  expect(await allOf({})).toEqual({});
  await expect(allOf({ a: new Promise(() => {}), b: Promise.reject(new Error('no')) })).rejects.toThrow('no');
});
