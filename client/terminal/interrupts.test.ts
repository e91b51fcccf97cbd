import { expect, test } from 'vitest';
import { decisionOf } from './interrupts.ts';

test.each([
  ['d', true, 'detach'],
  ['K', true, 'kill'],
  ['c', true, 'continue'],
  ['\r', true, 'continue'],
  ['\u0003', true, 'detach'],
  // A job that ends when its client exits cannot be detached.
  ['\u0003', false, 'kill'],
  ['d', false, null],
  ['x', true, null],
  ['xk', true, 'kill'],
  ['\x1b', true, 'continue'],
  ['\x1b[C', true, null],
] as const)('the key %j (detaching allowed: %s) means %s', (key, mayDetach, decision) => {
  expect(decisionOf(key, mayDetach)).toBe(decision);
});
