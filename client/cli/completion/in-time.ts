import { withTimeout } from '../../../platform/async/deadline.ts';

/** Time limit for the cluster's response, in ms since this process started. Kept short because the user is waiting for the completion. */
const ANSWER_MS = 450;
/** Minimum time (ms) to wait for the cluster's response. On a busy machine, process startup may use up most of `ANSWER_MS`. */
const LEAST_ANSWER_MS = 300;

/** Returns the result of `ask`, or `instead` if `ask` fails or takes too long. */
export async function inTime<T>(ask: () => Promise<T>, instead: T): Promise<T> {
  try {
    return await withTimeout(ask(), Math.max(LEAST_ANSWER_MS, ANSWER_MS - performance.now()), () => instead);
  } catch {
    return instead;
  }
}
