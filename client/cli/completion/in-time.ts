import { withTimeout } from '../../../platform/deadline.ts';

/** Deadline for the cluster's answer, in ms after the start of the process: the user is waiting at the shell's prompt. */
const ANSWER_MS = 450;
/** The cluster always gets at least this long to answer, even if a busy machine needed most of `ANSWER_MS` to start the process. */
const LEAST_ANSWER_MS = 300;

/** Returns the result of `ask`, or `instead` if `ask` fails or exceeds the deadline. */
export async function inTime<T>(ask: () => Promise<T>, instead: T): Promise<T> {
  try {
    return await withTimeout(ask(), Math.max(LEAST_ANSWER_MS, ANSWER_MS - performance.now()), () => instead);
  } catch {
    return instead;
  }
}
