import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { inTime } from './complete.ts';

// Fake timers start at 0, like the clock of a new process.
beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }));
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllEnvs();
});

const never = (): Promise<string> => new Promise(() => {});

test('inTime returns the answer, or the fallback after a failure', async () => {
  expect(await inTime(async () => 'answer', 'instead')).toBe('answer');
  expect(await inTime(() => Promise.reject(new Error('no')), 'instead')).toBe('instead');
  expect(vi.getTimerCount()).toBe(0);
});

test.each([
  ['450 ms after the start of the process', '', 0, 450],
  ['450 ms after the start of the process, of which 100 ms have passed', '', 100, 350],
  ['300 ms after the call if the process started long ago', '', 2_000, 300],
  ['the time of TONY_COMPLETION_TIMEOUT has passed', '2s', 100, 2_000],
  ['450 ms after the start of the process if TONY_COMPLETION_TIMEOUT has no unit', '2', 0, 450],
])('inTime waits for an answer until %s', async (_, wanted, startMs, waitedMs) => {
  vi.stubEnv('TONY_COMPLETION_TIMEOUT', wanted);
  vi.advanceTimersByTime(startMs);
  let given = '';
  void inTime(never, 'instead').then((value) => {
    given = value;
  });
  await vi.advanceTimersByTimeAsync(waitedMs - 1);
  expect(given).toBe('');
  await vi.advanceTimersByTimeAsync(1);
  expect(given).toBe('instead');
});
