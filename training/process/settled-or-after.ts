/**
 * Resolves when `work` resolves, or after `ms` milliseconds.
 * @throws the error with which `work` rejects before then.
 */
export async function settledOrAfter(work: Promise<unknown>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const pause = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  try {
    await Promise.race([work, pause]);
  } finally {
    clearTimeout(timer);
  }
}
