import { anySignal } from '../../platform/async/any-signal.ts';

/**
 * Runs several operations concurrently, like `Promise.all`. If an operation fails or `outer` is aborted, aborts the remaining operations
 * and waits until they have cleaned up.
 * @throws the first failure, or the abort reason of `outer`
 */
export async function sideBySide<T extends readonly unknown[]>(
  begin: (signal: AbortSignal) => readonly [...T],
  outer?: AbortSignal,
): Promise<{ -readonly [Index in keyof T]: Awaited<T[Index]> }> {
  const failed = new AbortController();
  const signal = outer === undefined ? failed.signal : anySignal([outer, failed.signal]);
  const works = begin(signal);
  for (const work of works) {
    Promise.resolve(work).catch((error: unknown) => failed.abort(error));
  }
  await Promise.allSettled(works);
  signal.throwIfAborted();
  return Promise.all(works);
}
