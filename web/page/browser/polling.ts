/** Nobody looks: often enough to be right when they come back. */
const HIDDEN_FACTOR = 8;
const LONGEST_MS = 30_000;

/** When to ask again: seldom while nobody looks, more and more seldom while there is no answer. */
export function nextDelay({ everyMs, hidden, failures }: { everyMs: number; hidden: boolean; failures: number }): number {
  const calm = hidden ? everyMs * HIDDEN_FACTOR : everyMs;
  return Math.max(calm, Math.min(LONGEST_MS, everyMs * 2 ** Math.min(failures, 10)));
}
