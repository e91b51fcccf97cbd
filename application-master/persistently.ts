import { setTimeout as delay } from 'node:timers/promises';
import { messageOf } from '../conf/errors.ts';
import type { Logger } from '../conf/log.ts';

/** How a failed action is tried again (ms). */
export const FIRST_PAUSE_MS = 250;
export const LONGEST_PAUSE_MS = 5_000;

/** Again and again until it succeeds: storage that is away comes back. Undefined when `signal` came before. */
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
