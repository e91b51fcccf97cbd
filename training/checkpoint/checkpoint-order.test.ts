import { existsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { folder } from '../../contract/testing/folder.ts';
import { CheckpointOrder } from './checkpoint-order.ts';

test('a program finds an order at its next check, and can receive another order after a checkpoint', async () => {
  const file = path.join(await folder(), 'order');
  let now = 0;
  const order = new CheckpointOrder(file, () => now);
  expect(order.isGiven).toBe(false);
  for (let round = 0; round < 2; round++) {
    writeFileSync(file, '');
    now += 100;
    expect(order.isGiven).toBe(false);
    now += 200;
    expect(order.isGiven).toBe(true);
    order.taken();
    expect(existsSync(file)).toBe(false);
    expect(order.isGiven).toBe(false);
  }
});

test('a program outside of a job gets no orders', () => {
  const order = new CheckpointOrder(null);
  expect(order.isGiven).toBe(false);
  order.taken();
});
