import { anySignal } from '../conf/any-signal.ts';

/**
 * Works side by side, as Promise.all does, but that none goes on unheard: when one fails, or `outer` is aborted, all others are told to end, and are
 * waited for. What they clean up they can only while storages and connections are still open.
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
  for (const work of works) Promise.resolve(work).catch((error: unknown) => failed.abort(error));
  await Promise.allSettled(works);
  signal.throwIfAborted();
  return Promise.all(works);
}
