import { useEffect, useState } from 'preact/hooks';
import { ApiError, type ProblemKind } from './api.ts';
import { nextDelay } from './polling.ts';

export interface Problem {
  readonly kind: ProblemKind;
  readonly text: string;
}

export interface Reading<T> {
  /** The newest that has come; null before the first answer. */
  readonly data: T | null;
  /** When it came, by this machine's clock. */
  readonly at: number | null;
  /** Of the last time it was asked for; null when that went well. */
  readonly problem: Problem | null;
}

export interface FeedOptions<T> {
  readonly load: (known: T | null) => Promise<T>;
  readonly everyMs: number;
  /** Asked before each request: nothing new can come after it. */
  readonly isLast?: () => boolean;
  /** Nothing newer than this will come. */
  readonly isComplete?: (data: T) => boolean;
}

/** What is over may have nobody left who answers. */
const LAST_TRIES = 3;

/** One resource of the job, asked for again and again as long as somebody on the page looks at it, one request at a time. */
export class Feed<T> {
  readonly #options: FeedOptions<T>;
  readonly #listeners = new Set<() => void>();
  #reading: Reading<T> = { data: null, at: null, problem: null };
  #failures = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #loading = false;
  #complete = false;

  constructor(options: FeedOptions<T>) {
    this.#options = options;
  }

  get reading(): Reading<T> {
    return this.#reading;
  }

  /** Until the function that is returned is called, `listener` is told of each answer and each failure. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    if (this.#listeners.size === 1) {
      document.addEventListener('visibilitychange', this.#onVisibility);
      this.refresh();
    }
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size > 0) return;
      document.removeEventListener('visibilitychange', this.#onVisibility);
      clearTimeout(this.#timer);
    };
  }

  /** Ask now rather than when it is time. */
  refresh(): void {
    clearTimeout(this.#timer);
    if (!this.#loading && !this.#complete) void this.#ask();
  }

  /** Somebody has come back to the page: they want to see what is. */
  readonly #onVisibility = (): void => {
    if (!document.hidden) this.refresh();
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
      // Who is not let in is not let in by asking again.
      this.#complete = kind === 'refused' || (last && this.#failures >= LAST_TRIES);
    }
    this.#loading = false;
    for (const listener of [...this.#listeners]) listener();
    if (this.#complete || this.#listeners.size === 0) return;
    const delay = nextDelay({ everyMs, hidden: document.hidden, failures: this.#failures });
    this.#timer = setTimeout(() => this.refresh(), delay);
  }
}

/** What the feed has; as long as the component is there, it is kept new. */
export function useFeed<T>(feed: Feed<T>): Reading<T> {
  const [, setTurn] = useState({});
  useEffect(() => feed.subscribe(() => setTurn({})), [feed]);
  return feed.reading;
}
