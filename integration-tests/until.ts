import { setTimeout as delay } from 'node:timers/promises';

/** Maximum pause (ms) after a slow condition. */
const LONGEST_PAUSE_MS = 1000;

/**
 * Waits until `condition` returns a truthy value, and returns that value. If the condition throws, the wait continues. Pauses at least twice
 * as long as the condition took: many conditions start a command, which would otherwise keep a processor busy.
 * @throws after `timeoutMs`; the message contains the current state from `describe`
 */
export async function until<T>(
  condition: () => T | Promise<T>,
  { describe, timeoutMs = 60_000, everyMs = 100 }: { describe: string | (() => unknown); timeoutMs?: number; everyMs?: number },
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
