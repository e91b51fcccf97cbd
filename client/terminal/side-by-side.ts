import { anySignal } from '../../platform/any-signal.ts';

/**
 * Awaits promises like `Promise.all`, but leaves no work running: if one rejects or `outer` is aborted, aborts the work of the others and
 * waits for it, so that it can clean up while storages and connections are still open.
 *
 * @throws the first failure, or the reason of `outer`
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
