/** Exponential backoff. The pause is `firstMs` after the first failure and doubles with each consecutive failure, up to `mostMs`. */
export interface Backoff {
  readonly firstMs: number;
  readonly mostMs: number;
}

export interface RetryOptions extends Backoff {
  /** Whether to randomise each pause with `jittered`. */
  readonly jitter?: boolean;
  /** Aborting this signal stops the retries, but does not interrupt a running action. */
  readonly signal?: AbortSignal | undefined;
  /** Called after each failure, before the pause. May throw to stop the retries. */
  readonly onFailure?: (error: unknown, failures: number, pauseMs: number) => void;
}

/** Returns the pause in ms after the given number of consecutive failures. Returns 0 if there were no failures. */
export function backoffMs(failures: number, { firstMs, mostMs }: Backoff): number {
  return failures <= 0 ? 0 : Math.min(mostMs, firstMs * 2 ** Math.min(failures - 1, 32));
}

/** Returns a random duration between `ms / 2` and `ms`. Jitter spreads the retries of many clients over time. */
export function jittered(ms: number, random: () => number = Math.random): number {
  return ms * (0.5 + random() / 2);
}

/** Resolves after `ms`, or when `signal` aborts. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener('abort', end);
    if (signal?.aborted === true) {
      end();
    }
  });
}

/**
 * Repeats the action with exponential backoff until it succeeds.
 * @throws the abort reason of `signal`, or the error that `onFailure` throws
 */
export async function retry<T>(action: () => Promise<T>, { jitter = false, signal, onFailure, ...backoff }: RetryOptions): Promise<T> {
  for (let failures = 1; ; failures++) {
    signal?.throwIfAborted();
    try {
      return await action();
    } catch (error) {
      signal?.throwIfAborted();
      const ms = backoffMs(failures, backoff);
      const pauseMs = jitter ? jittered(ms) : ms;
      onFailure?.(error, failures, pauseMs);
      await pause(pauseMs, signal);
    }
  }
}
