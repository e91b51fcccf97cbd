import { backoffMs } from '../../../../platform/backoff.ts';

/** The factor by which the interval grows while the page is hidden. The data must still be recent when the page becomes visible. */
const HIDDEN_FACTOR = 8;
const LONGEST_MS = 30_000;

/** The delay before the next request: longer while the page is hidden, and with exponential backoff after failures. */
export function nextDelay({ everyMs, hidden, failures }: { everyMs: number; hidden: boolean; failures: number }): number {
  const calm = hidden ? everyMs * HIDDEN_FACTOR : everyMs;
  return Math.max(calm, backoffMs(failures + 1, { firstMs: everyMs, mostMs: LONGEST_MS }));
}
