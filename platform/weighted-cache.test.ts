import { expect, test } from 'vitest';
import { WeightedCache } from './weighted-cache.ts';

test('evicts the least recently used value', () => {
  const cache = new WeightedCache<string, number>(10);
  cache.set('a', 1, 4);
  cache.set('b', 2, 4);
  expect(cache.get('a')).toBe(1);
  cache.set('c', 3, 4);
  expect(['a', 'b', 'c'].map((key) => cache.get(key))).toEqual([1, undefined, 3]);
  cache.set('a', 5, 1);
  cache.set('d', 4, 5);
  expect(['a', 'c', 'd'].map((key) => cache.get(key))).toEqual([5, 3, 4]);
});

test('ignores a value that is heavier than the limit, and evicts nothing', () => {
  const cache = new WeightedCache<string, number>(10);
  cache.set('a', 1, 10);
  cache.set('b', 2, 11);
  expect(['a', 'b'].map((key) => cache.get(key))).toEqual([1, undefined]);
  cache.delete('a');
  cache.set('c', 3, 10);
  expect(cache.get('c')).toBe(3);
});
