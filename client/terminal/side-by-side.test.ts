import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { sideBySide } from './side-by-side.ts';

async function untilTold(signal: AbortSignal, ended: () => void): Promise<never> {
  try {
    return await new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  } finally {
    await delay(5);
    ended();
  }
}

test('returns all results in order', async () => {
  expect(await sideBySide(() => [delay(5, 'a'), 2, Promise.resolve(null)])).toEqual(['a', 2, null]);
  expect(await sideBySide(() => [])).toEqual([]);
});

test('aborts the other operations at the first failure, waits for them, and throws the failure', async () => {
  let ended = 0;
  const count = (): void => void ended++;
  const failing = sideBySide((signal) => [untilTold(signal, count), Promise.reject(new Error('first')), untilTold(signal, count)]);
  await expect(failing).rejects.toThrow('first');
  expect(ended).toBe(2);
});

test('passes an abort from outside to all work, including nested calls', async () => {
  let ended = 0;
  const count = (): void => void ended++;
  const controller = new AbortController();
  const nested = sideBySide(
    (signal) => [untilTold(signal, count), sideBySide((inner) => [untilTold(inner, count), untilTold(inner, count)], signal)],
    controller.signal,
  );
  const expected = expect(nested).rejects.toThrow('interrupted');
  controller.abort(new Error('interrupted'));
  await expected;
  expect(ended).toBe(3);
});
