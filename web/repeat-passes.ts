import { setTimeout as delay } from 'node:timers/promises';

const LONGEST_PAUSE_MS = 60_000;

export interface PassOptions {
  /**
   * The maximum fraction of the time (0 to 1) that passes may take. To stay below this fraction, the pause after a slow pass is longer, but
   * never more than 60 s.
   */
  readonly share: number;
  readonly signal: AbortSignal;
  /** Returns the current time in ms since an arbitrary origin. */
  readonly clock?: () => number;
}

/**
 * Calls `pass` repeatedly to read files that a job is still writing. The pauses between passes do not keep the process alive.
 * @param pass reads the files; returns the minimum pause in ms before the next pass, or null to stop
 */
export async function repeatPasses(
  pass: () => Promise<number | null>,
  { share, signal, clock = () => performance.now() }: PassOptions,
): Promise<void> {
  while (!signal.aborted) {
    const began = clock();
    const pauseMs = await pass();
    if (pauseMs === null) {
      return;
    }
    const ms = Math.min(LONGEST_PAUSE_MS, Math.max(pauseMs, (clock() - began) / share));
    // `delay` rejects only when the signal aborts.
    await delay(ms, undefined, { signal, ref: false }).catch(() => {});
  }
}
