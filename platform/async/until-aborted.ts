/**
 * Settles like `work`, or rejects with the signal's abort reason. Intended for work that does not support signals. An abort does not stop
 * `work`, but the result of `work` is then ignored.
 */
export async function untilAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) {
    return work;
  }
  let aborted: () => void = () => undefined;
  const end = new Promise<never>((_, reject) => {
    aborted = () => reject(signal.reason);
    if (signal.aborted) {
      aborted();
    }
    signal.addEventListener('abort', aborted, { once: true });
  });
  try {
    return await Promise.race([work, end]);
  } finally {
    signal.removeEventListener('abort', aborted);
  }
}
