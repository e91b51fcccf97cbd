import { retry } from '../../platform/async/backoff.ts';
import { messageOf } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';

export const STORAGE_BACKOFF = { firstMs: 250, mostMs: 5_000 };

/** Retries a storage operation until it succeeds. Logs `message` after each failure. Resolves to undefined if `signal` aborts first. */
export async function retryStorage<T>(
  message: string,
  action: () => Promise<T>,
  { log, signal }: { readonly log: Logger; readonly signal: AbortSignal },
): Promise<T | undefined> {
  const onFailure = (error: unknown): void => log.warn({ error: messageOf(error) }, message);
  // `retry` rejects only if the signal aborts.
  return retry(action, { ...STORAGE_BACKOFF, signal, onFailure }).catch(() => undefined);
}
