import { withTimeout } from '../../../platform/deadline.ts';

/** The user waits for the completion: the cluster's answer is dropped when it takes longer than this after the start of the process. */
const ANSWER_MS = 450;
/** The minimum time for the answer, for when a busy machine uses up ANSWER_MS for the start. */
const LEAST_ANSWER_MS = 300;

/** Returns the result of `ask`, or `instead` if it fails or exceeds the deadline. */
export async function inTime<T>(ask: () => Promise<T>, instead: T): Promise<T> {
  try {
    return await withTimeout(ask(), Math.max(LEAST_ANSWER_MS, ANSWER_MS - performance.now()), () => instead);
  } catch {
    return instead;
  }
}
