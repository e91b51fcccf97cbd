import fc from 'fast-check';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { backoffMs, jittered, pause, retry } from './backoff.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const backoff = fc
  .tuple(fc.integer({ min: 1, max: 10_000 }), fc.integer({ min: 0, max: 1_000_000 }))
  .map(([firstMs, more]) => ({ firstMs, mostMs: firstMs + more }));

test('each failure doubles the pause, up to the maximum', () => {
  fc.assert(
    fc.property(backoff, fc.integer({ min: 1, max: 100_000 }), (each, failures) => {
      expect(backoffMs(0, each)).toBe(0);
      expect(backoffMs(1, each)).toBe(each.firstMs);
      expect(backoffMs(failures + 1, each)).toBe(Math.min(each.mostMs, backoffMs(failures, each) * 2));
    }),
  );
});

test('jitter leaves at least half of the pause and never exceeds it', () => {
  fc.assert(
    fc.property(
      fc.double({ min: 0, max: 1e6, noNaN: true }),
      fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      (ms, random) => {
        const left = jittered(ms, () => random);
        expect(left).toBeGreaterThanOrEqual(ms / 2);
        expect(left).toBeLessThanOrEqual(ms);
      },
    ),
  );
});

test('a pause ends after the given time or when its signal aborts, and leaves no timer or listener behind', async () => {
  const ended: string[] = [];
  const abort = new AbortController();
  const removed = vi.spyOn(abort.signal, 'removeEventListener');
  void pause(10).then(() => ended.push('time'));
  void pause(1_000, abort.signal).then(() => ended.push('abort'));
  await vi.advanceTimersByTimeAsync(10);
  expect(ended).toEqual(['time']);
  abort.abort();
  await pause(1_000, abort.signal);
  expect(ended).toEqual(['time', 'abort']);
  expect(vi.getTimerCount()).toBe(0);
  expect(removed).toHaveBeenCalledTimes(2);
});

test('retry repeats an action, with growing pauses, until it succeeds', async () => {
  const pauses: number[][] = [];
  let failuresLeft = 4;
  const action = async (): Promise<string> => {
    if (failuresLeft-- > 0) {
      throw new Error('busy');
    }
    return 'done';
  };
  const result = retry(action, { firstMs: 10, mostMs: 50, onFailure: (_, failures, pauseMs) => pauses.push([failures, pauseMs]) });
  await vi.advanceTimersByTimeAsync(119);
  expect(failuresLeft).toBe(0);
  await vi.advanceTimersByTimeAsync(1);
  expect(await result).toBe('done');
  expect(pauses).toEqual([
    [1, 10],
    [2, 20],
    [3, 40],
    [4, 50],
  ]);
});

test('onFailure ends the retries by throwing', async () => {
  const action = vi.fn(async () => {
    throw new Error('busy');
  });
  const onFailure = (error: unknown): void => {
    throw new Error('given up', { cause: error });
  };
  await expect(retry(action, { firstMs: 10, mostMs: 50, onFailure })).rejects.toThrow('given up');
  expect(action).toHaveBeenCalledTimes(1);
});

test('an aborted signal ends the retries with its reason: before the first attempt, in a pause, and after a failed attempt', async () => {
  const reason = new Error('closed');
  const action = vi.fn(async () => {
    throw new Error('busy');
  });
  await expect(retry(action, { firstMs: 10, mostMs: 50, signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  expect(action).not.toHaveBeenCalled();
  for (const when of ['pause', 'attempt']) {
    const abort = new AbortController();
    const onFailure = vi.fn();
    const failed = retry(
      async () => {
        if (when === 'attempt') {
          abort.abort(reason);
        }
        throw new Error('busy');
      },
      { firstMs: 10, mostMs: 50, signal: abort.signal, onFailure },
    );
    const rejected = expect(failed).rejects.toBe(reason);
    await vi.advanceTimersByTimeAsync(5);
    abort.abort(reason);
    await rejected;
    expect(onFailure).toHaveBeenCalledTimes(when === 'pause' ? 1 : 0);
  }
  expect(vi.getTimerCount()).toBe(0);
});
