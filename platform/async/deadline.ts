/**
 * Settles like `work`. If `work` takes longer than `ms`, returns the result of `onTimeout`, which may throw. The timeout does not stop
 * `work`, but the result of `work` is then ignored.
 */
export async function withTimeout<T, L>(work: Promise<T>, ms: number, onTimeout: () => L): Promise<T | L> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const deadline = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, Math.max(0, ms));
  }).then(onTimeout);
  try {
    return await Promise.race([work, deadline]);
  } finally {
    clearTimeout(timer);
  }
}
