import { useEffect, useState } from 'preact/hooks';
import { backoffMs } from '../../../../platform/async/backoff.ts';
import { ApiError, type ProblemKind } from './api.ts';

/**
 * While the page is hidden, the pauses between requests are this many times as long. A hidden page still polls, so that its data is recent
 * when the user returns.
 */
const HIDDEN_FACTOR = 8;
const LONGEST_MS = 30_000;

/**
 * Returns the delay before the next request, in ms. The delay is longer while the page is hidden, and grows exponentially after failures.
 */
export function nextDelay({ everyMs, hidden, failures }: { everyMs: number; hidden: boolean; failures: number }): number {
  const calm = hidden ? everyMs * HIDDEN_FACTOR : everyMs;
  return Math.max(calm, backoffMs(failures + 1, { firstMs: everyMs, mostMs: LONGEST_MS }));
}

export interface Problem {
  readonly kind: ProblemKind;
  readonly text: string;
}

export interface Reading<T> {
  readonly data: T | null;
  /** The time at which `data` arrived by the browser's clock, in ms since the epoch. */
  readonly at: number | null;
  readonly problem: Problem | null;
}

export interface PolledResourceOptions<T> {
  readonly load: (known: T | null) => Promise<T>;
  readonly everyMs: number;
  /** Returns whether the data is final. If it is, polling stops after one more request. */
  readonly isLast?: () => boolean;
  readonly isComplete?: (data: T) => boolean;
}

/** Once the job has ended, polling stops after this many failed requests, because the job's server may have stopped. */
const LAST_TRIES = 3;

/** Polls one of the job's resources while at least one component subscribes to it. Sends one request at a time. */
export class PolledResource<T> {
  readonly #options: PolledResourceOptions<T>;
  readonly #listeners = new Set<() => void>();
  #reading: Reading<T> = { data: null, at: null, problem: null };
  #failures = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #loading = false;
  #complete = false;

  constructor(options: PolledResourceOptions<T>) {
    this.#options = options;
  }

  get reading(): Reading<T> {
    return this.#reading;
  }

  /** Calls `listener` after each response and each error. Returns a function that unsubscribes. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    if (this.#listeners.size === 1) {
      document.addEventListener('visibilitychange', this.#onVisibility);
      this.refresh();
    }
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size > 0) {
        return;
      }
      document.removeEventListener('visibilitychange', this.#onVisibility);
      clearTimeout(this.#timer);
    };
  }

  /** Sends the next request now instead of at its scheduled time. */
  refresh(): void {
    clearTimeout(this.#timer);
    if (!this.#loading && !this.#complete) {
      void this.#ask();
    }
  }

  readonly #onVisibility = (): void => {
    if (!document.hidden) {
      this.refresh();
    }
  };

  async #ask(): Promise<void> {
    this.#loading = true;
    const { load, everyMs, isLast = () => false, isComplete = () => false } = this.#options;
    const last = isLast();
    try {
      const data = await load(this.#reading.data);
      this.#failures = 0;
      this.#complete = last || isComplete(data);
      this.#reading = { data, at: Date.now(), problem: null };
    } catch (error) {
      this.#failures++;
      const { kind, message } = error instanceof ApiError ? error : new ApiError('unreachable', String(error));
      this.#reading = { ...this.#reading, problem: { kind, text: message } };
      // Stops polling, because the server would refuse the next request as well.
      this.#complete = kind === 'refused' || (last && this.#failures >= LAST_TRIES);
    }
    this.#loading = false;
    for (const listener of [...this.#listeners]) {
      listener();
    }
    if (this.#complete || this.#listeners.size === 0) {
      return;
    }
    const delay = nextDelay({ everyMs, hidden: document.hidden, failures: this.#failures });
    this.#timer = setTimeout(() => this.refresh(), delay);
  }
}

/** Returns the resource's state, and polls the resource while the component is mounted. */
export function usePolledResource<T>(feed: PolledResource<T>): Reading<T> {
  const [, setTurn] = useState({});
  useEffect(() => feed.subscribe(() => setTurn({})), [feed]);
  return feed.reading;
}
