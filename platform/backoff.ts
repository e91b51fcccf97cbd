/** Exponential backoff: the pause starts at `firstMs` and doubles with each consecutive failure, up to `mostMs`. */
export interface Backoff {
  readonly firstMs: number;
  readonly mostMs: number;
}

export interface RetryOptions extends Backoff {
  /** Applies `jittered` to each pause. */
  readonly jitter?: boolean;
  /** An abort ends the retries, but does not interrupt a running action. */
  readonly signal?: AbortSignal | undefined;
  /** Called after each failure, before the pause. May throw to end the retries. */
  readonly onFailure?: (error: unknown, failures: number, pauseMs: number) => void;
}

/** Returns the pause (ms) after the given number of consecutive failures; 0 for no failures. */
export function backoffMs(failures: number, { firstMs, mostMs }: Backoff): number {
  return failures <= 0 ? 0 : Math.min(mostMs, firstMs * 2 ** Math.min(failures - 1, 32));
}

/** Returns a random duration between `ms / 2` and `ms`, which spreads the retries of many clients over time. */
export function jittered(ms: number, random: () => number = Math.random): number {
  return ms * (0.5 + random() / 2);
}

/** Resolves after `ms`, or as soon as `signal` aborts. */
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
 * Repeats the action until it succeeds, with exponential backoff between attempts.
 * @throws the reason of `signal` when it aborts, and what `onFailure` throws.
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
