import { withTimeout } from '../../../platform/deadline.ts';

/** Deadline for the cluster's answer, in ms after the start of the process. It is short, because the user waits for the completion. */
const ANSWER_MS = 450;
/** Minimum time for the cluster's answer (ms). On a busy machine, the start of the process may take most of `ANSWER_MS`. */
const LEAST_ANSWER_MS = 300;

/** Returns the result of `ask`, or `instead` if `ask` fails or takes too long. */
export async function inTime<T>(ask: () => Promise<T>, instead: T): Promise<T> {
  try {
    return await withTimeout(ask(), Math.max(LEAST_ANSWER_MS, ANSWER_MS - performance.now()), () => instead);
  } catch {
    return instead;
  }
}
