import { backoffMs } from '../../../../platform/backoff.ts';

/**
 * While the page is hidden, requests are this many times less frequent. Occasional requests keep the data recent for when the user
 * returns.
 */
const HIDDEN_FACTOR = 8;
const LONGEST_MS = 30_000;

/** Returns the delay before the next request (ms): longer while the page is hidden, with exponential backoff after failures. */
export function nextDelay({ everyMs, hidden, failures }: { everyMs: number; hidden: boolean; failures: number }): number {
  const calm = hidden ? everyMs * HIDDEN_FACTOR : everyMs;
  return Math.max(calm, backoffMs(failures + 1, { firstMs: everyMs, mostMs: LONGEST_MS }));
}
