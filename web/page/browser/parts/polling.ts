import { backoffMs } from '../../../../platform/backoff.ts';

/** How much longer the interval is while the page is hidden: still short enough to be up to date when it becomes visible. */
const HIDDEN_FACTOR = 8;
const LONGEST_MS = 30_000;

/** The delay before the next request: longer while the page is hidden, and with exponential backoff after failures. */
export function nextDelay({ everyMs, hidden, failures }: { everyMs: number; hidden: boolean; failures: number }): number {
  const calm = hidden ? everyMs * HIDDEN_FACTOR : everyMs;
  return Math.max(calm, backoffMs(failures + 1, { firstMs: everyMs, mostMs: LONGEST_MS }));
}
