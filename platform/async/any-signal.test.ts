import { once } from 'node:events';
import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';
import { anySignal } from './any-signal.ts';

it('fires with a timeout that nothing else references, even after garbage collection', async () => {
  const never = new AbortController();
  const signal = anySignal([anySignal([never.signal, AbortSignal.timeout(200)]), never.signal]);
  const fired = once(signal, 'abort');
  // Wait for the next turn of the event loop, because the garbage collector keeps new signals until then.
  await setImmediate();
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
  await fired;
  expect(signal.reason).toMatchObject({ name: 'TimeoutError' });
});

it('fires with the first of its signals, and immediately if one has already fired', () => {
  const [first, second] = [new AbortController(), new AbortController()];
  const signal = anySignal([first.signal, second.signal]);
  expect(signal.aborted).toBe(false);
  second.abort('enough');
  expect(signal).toMatchObject({ aborted: true, reason: 'enough' });
  expect(anySignal([first.signal, signal]).reason).toBe('enough');
});
