import { backoffMs } from '../../../../platform/async/backoff.ts';

/**
 * While the page is hidden, the pauses between requests are this many times as long. A hidden page still polls, so that its data is recent
 * when the user returns.
 */
const HIDDEN_FACTOR = 8;
const LONGEST_MS = 30_000;

/**
 * Returns the delay before the next request, in ms. The delay is longer while the page is hidden, and grows exponentially after failures.
 */
export function nextDelay({ everyMs, hidden, failures }: { everyMs: number; hidden: boolean; failures: number }): number {
  const calm = hidden ? everyMs * HIDDEN_FACTOR : everyMs;
  return Math.max(calm, backoffMs(failures + 1, { firstMs: everyMs, mostMs: LONGEST_MS }));
}
