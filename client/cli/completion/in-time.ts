import { withTimeout } from '../../../platform/deadline.ts';

/** Deadline for the cluster's answer, in ms after the start of the process. Short, because the user waits for the completion. */
const ANSWER_MS = 450;
/** Minimum time for the cluster's answer (ms), because a busy machine may need most of `ANSWER_MS` to start the process. */
const LEAST_ANSWER_MS = 300;

/** Returns the result of `ask`, or `instead` if `ask` fails or exceeds the deadline. */
export async function inTime<T>(ask: () => Promise<T>, instead: T): Promise<T> {
  try {
    return await withTimeout(ask(), Math.max(LEAST_ANSWER_MS, ANSWER_MS - performance.now()), () => instead);
  } catch {
    return instead;
  }
}
