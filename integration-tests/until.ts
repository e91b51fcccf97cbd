import { setTimeout as delay } from 'node:timers/promises';

/**
 * Ends a wait that hangs, before its test ends, so that the failure shows the state. Waits have no other deadline: a busy machine is slow,
 * and the speed of a machine is no property of the product.
 */
export const HANGS_MS = 240_000;
/** Ends a child process that hangs, before its test ends. */
export const PROGRAM_HANGS_MS = 580_000;
/** Maximum pause (ms) after a slow condition. */
const LONGEST_PAUSE_MS = 1000;

/**
 * Waits until `condition` returns a truthy value, and returns that value. If the condition throws, the wait continues. Pauses at least twice
 * as long as the condition took: many conditions start a command, which would otherwise keep a processor busy.
 * @throws after `timeoutMs`; the message contains the current state from `describe`
 */
export async function until<T>(
  condition: () => T | Promise<T>,
  {
    describe,
    timeoutMs = HANGS_MS,
    everyMs = 100,
  }: { describe: string | (() => unknown); timeoutMs?: number | undefined; everyMs?: number },
): Promise<Exclude<T, false | null | undefined | 0 | ''>> {
  const started = performance.now();
  for (;;) {
    let failure: unknown;
    const asked = performance.now();
    try {
      const value = await condition();
      if (value) {
        return value as Exclude<T, false | null | undefined | 0 | ''>;
      }
    } catch (error) {
      failure = error;
    }
    if (performance.now() - started > timeoutMs) {
      const state = typeof describe === 'string' ? describe : await describe();
      throw new Error(`not within ${timeoutMs / 1000} s: ${typeof state === 'string' ? state : JSON.stringify(state, null, 2)}`, {
        cause: failure,
      });
    }
    await delay(Math.max(everyMs, Math.min(LONGEST_PAUSE_MS, 2 * (performance.now() - asked))));
  }
}
