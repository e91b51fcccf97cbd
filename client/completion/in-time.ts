/** A person waits for the TAB: what the cluster has not said so long after the start of this process is left out. */
const ANSWER_MS = 450;
/** On a busy machine the start takes all of that. */
const LEAST_ANSWER_MS = 300;

/** What the cluster answers to `ask`, or `instead` when it fails, or takes too long. */
export async function inTime<T>(ask: () => Promise<T>, instead: T): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<T>((resolve) => {
    timer = setTimeout(() => resolve(instead), Math.max(LEAST_ANSWER_MS, ANSWER_MS - performance.now()));
  });
  try {
    return await Promise.race([ask(), late]);
  } catch {
    return instead;
  } finally {
    clearTimeout(timer);
  }
}
