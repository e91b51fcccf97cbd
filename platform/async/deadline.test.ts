import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { withTimeout } from './deadline.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const never = (): Promise<never> => new Promise(() => {});

test('work that settles in time decides the result and leaves no timer', async () => {
  expect(await withTimeout(Promise.resolve(1), 10, () => 2)).toBe(1);
  await expect(withTimeout(Promise.reject(new Error('broken')), 10, () => 2)).rejects.toThrow('broken');
  expect(vi.getTimerCount()).toBe(0);
});

test('after the timeout, onTimeout supplies the result', async () => {
  const result = withTimeout(never(), 10, () => 'late');
  await vi.advanceTimersByTimeAsync(9);
  expect(vi.getTimerCount()).toBe(1);
  await vi.advanceTimersByTimeAsync(1);
  expect(await result).toBe('late');
});

test('onTimeout may throw, and a later failure of the work is handled', async () => {
  let fail: (error: Error) => void = () => {};
  const work = new Promise<never>((_, reject) => {
    fail = reject;
  });
  const result = withTimeout(work, 10, () => {
    throw new Error('no answer');
  });
  const rejected = expect(result).rejects.toThrow('no answer');
  await vi.advanceTimersByTimeAsync(10);
  await rejected;
  fail(new Error('broken'));
  await vi.advanceTimersByTimeAsync(1);
});
