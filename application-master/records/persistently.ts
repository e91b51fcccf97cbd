import { setTimeout as delay } from 'node:timers/promises';
import { messageOf } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';

/** Pauses between retries of a failed action (ms). */
export const FIRST_PAUSE_MS = 250;
export const LONGEST_PAUSE_MS = 5_000;

/** Retries an action until it succeeds, because storage outages are temporary. Resolves to undefined if `signal` is aborted first. */
export async function persistently<T>(
  complaint: string,
  action: () => Promise<T>,
  { log, signal }: { readonly log: Logger; readonly signal: AbortSignal },
): Promise<T | undefined> {
  for (let pause = FIRST_PAUSE_MS; !signal.aborted; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
    try {
      return await action();
    } catch (error) {
      log.warn({ error: messageOf(error) }, complaint);
      await delay(pause, undefined, { signal }).catch(() => {});
    }
  }
  return undefined;
}
