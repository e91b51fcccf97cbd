import { setTimeout as delay } from 'node:timers/promises';

const LONGEST_PAUSE_MS = 60_000;

export interface PassOptions {
  /** The greatest share of the time that passes take. A slow pass lengthens the pause after it, up to 60 s. */
  readonly share: number;
  readonly signal: AbortSignal;
  /** Returns the current time in ms since an arbitrary origin. */
  readonly clock?: () => number;
}

/**
 * Reads files again and again while a job writes them. Pauses do not keep the process alive.
 * @param pass reads the files; returns the shortest pause in ms before the next pass, or null to end the reading
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
    // The only error is that the signal aborts.
    await delay(ms, undefined, { signal, ref: false }).catch(() => {});
  }
}
