/** Timeout (ms) for one request to an ApplicationMaster. */
export const MASTER_ANSWER_MS = 2_000;
/** Interval (ms) between requests to an unresponsive ApplicationMaster. Each request blocks a thread in the ResourceManager's proxy. */
const ASK_AGAIN_MS = 5_000;

/** Measures how long an ApplicationMaster has been unresponsive, and limits the request rate during that time. */
export class MasterSilence {
  readonly #now: () => number;
  #since: number | null = null;
  #askAt = Number.NEGATIVE_INFINITY;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Time (ms) since the first unanswered request, or null if the ApplicationMaster responded to the last request. */
  get ms(): number | null {
    return this.#since === null ? null : Math.round(this.#now() - this.#since);
  }

  /** Sends a request, unless the last request failed less than `ASK_AGAIN_MS` ago. Returns null if no request was sent or if it failed. */
  async ask<T>(question: () => Promise<T>): Promise<T | null> {
    const askedAt = this.#now();
    if (askedAt < this.#askAt) {
      return null;
    }
    try {
      const answer = await question();
      this.end();
      return answer;
    } catch {
      this.#since ??= askedAt;
      this.#askAt = this.#now() + ASK_AGAIN_MS;
      return null;
    }
  }

  /**
   * Ends the measurement. Callers must call this method when they receive a response from the ApplicationMaster by other means, or when the
   * ApplicationMaster is not running.
   */
  end(): void {
    this.#since = null;
    this.#askAt = Number.NEGATIVE_INFINITY;
  }
}

export function silenceText(silentMs: number): string {
  const seconds = Math.max(1, Math.round(silentMs / 1000));
  return `The ApplicationMaster has not answered for ${seconds} s.`;
}
