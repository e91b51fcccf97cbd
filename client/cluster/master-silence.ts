/** Timeout of one request to an ApplicationMaster (ms). */
export const MASTER_ANSWER_MS = 2_000;
/** Interval (ms) between requests to a silent ApplicationMaster. Each request occupies a thread of the ResourceManager's proxy. */
const ASK_AGAIN_MS = 5_000;

/** Measures how long an ApplicationMaster has not answered, and limits the rate of requests during that time. */
export class MasterSilence {
  readonly #now: () => number;
  #since: number | null = null;
  #askAt = Number.NEGATIVE_INFINITY;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Time since the first unanswered request (ms); null while the ApplicationMaster answers. */
  get ms(): number | null {
    return this.#since === null ? null : Math.round(this.#now() - this.#since);
  }

  /**
   * Sends a request and returns the answer, or null if the request fails. Shortly after a failed request, returns null without sending.
   */
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

  /** Ends the silence, because the ApplicationMaster has answered or is not running. */
  end(): void {
    this.#since = null;
    this.#askAt = Number.NEGATIVE_INFINITY;
  }
}

export function silenceText(silentMs: number): string {
  const seconds = Math.max(1, Math.round(silentMs / 1000));
  return `The ApplicationMaster has not answered for ${seconds} s.`;
}
