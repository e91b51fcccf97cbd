/** A person waits for the TAB: what is not there so long after the start of this process is left out. */
const ANSWER_MS = 450;
/** On a busy machine the start takes all of that. */
const LEAST_ANSWER_MS = 300;

/** What `look` finds, or `instead` when it fails, or takes too long; `earlierMs` leaves time for what is done with it. */
export async function inTime<T>(look: () => Promise<T>, instead: T, earlierMs = 0): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<T>((resolve) => {
    timer = setTimeout(() => resolve(instead), Math.max(LEAST_ANSWER_MS, ANSWER_MS - performance.now()) - earlierMs);
  });
  try {
    return await Promise.race([look(), late]);
  } catch {
    return instead;
  } finally {
    clearTimeout(timer);
  }
}
