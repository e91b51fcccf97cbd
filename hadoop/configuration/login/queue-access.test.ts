import { expect, test } from 'vitest';
import { includesQueue } from './queue-access.ts';

test('finds a queue by its full path or by its last component', () => {
  const found = (queues: readonly string[], queue: string) => includesQueue(queues, queue);
  expect([found(['root.research.gpu'], 'gpu'), found(['gpu'], 'root.research.gpu'), found(['root.gpu'], 'root.gpu')]).toEqual([
    true,
    true,
    true,
  ]);
  expect([found(['root.biggpu'], 'gpu'), found(['root.a.gpu'], 'root.b.gpu'), found([], 'gpu')]).toEqual([false, false, false]);
});
