import { backoffMs, jittered, pause } from '../../platform/backoff.ts';

const BACKOFF = { firstMs: 50, mostMs: 2_000 };

/** The outcome of one attempt: a result, or the reason for another attempt. */
export type Outcome<T> = { readonly result: T } | { readonly again: string };

/** The clock, the jitter and the delay between two rounds. */
export interface Pacing {
  /** Returns the time of a monotonic clock, ms. */
  readonly now: () => number;
  /** Returns a number in [0, 1) for the jitter, which spreads the reconnects of many clients over time. */
  readonly random: () => number;
  /** Resolves after `ms`, or as soon as the signal aborts. */
  readonly wait: (ms: number, signal: AbortSignal) => Promise<void>;
}

const REAL_PACING: Pacing = {
  now: () => performance.now(),
  random: Math.random,
  wait: pause,
};

/**
 * Tries addresses in turn, starting with the address that answered last, until an attempt has a result or throws, or until the time limit
 * (`patienceMs`). The delay between rounds grows exponentially.
 */
export class AddressRound {
  readonly #addresses: readonly string[];
  readonly #patienceMs: number;
  readonly #firstPatienceMs: number;
  readonly #pacing: Pacing;
  readonly #closing = new AbortController();
  #answered = 0;
  #hasAnswered = false;

  /** @param options.firstPatienceMs time limit until an address has answered once; default and maximum: `patienceMs`. */
  constructor(
    addresses: readonly string[],
    patienceMs: number,
    {
      firstPatienceMs = patienceMs,
      pacing = REAL_PACING,
    }: { readonly firstPatienceMs?: number | undefined; readonly pacing?: Pacing } = {},
  ) {
    this.#addresses = addresses;
    this.#patienceMs = patienceMs;
    this.#firstPatienceMs = firstPatienceMs;
    this.#pacing = pacing;
  }

  /** Returns the first result, or at the time limit the reason why the last attempt failed. */
  async run<T>(attempt: (address: string) => Promise<Outcome<T>>): Promise<{ readonly result: T } | { readonly reason: string }> {
    const { now, random, wait } = this.#pacing;
    const end = now() + (this.#hasAnswered ? this.#patienceMs : Math.min(this.#firstPatienceMs, this.#patienceMs));
    let reason = 'no address is known';
    for (let round = 1; ; round += 1) {
      const first = this.#answered;
      for (let turn = 0; turn < this.#addresses.length; turn += 1) {
        const index = (first + turn) % this.#addresses.length;
        const address = this.#addresses[index] ?? '';
        const outcome = await attempt(address);
        if ('result' in outcome) {
          this.#answered = index;
          this.#hasAnswered = true;
          return outcome;
        }
        reason = `${address}: ${outcome.again}`;
      }
      const waitMs = jittered(backoffMs(round, BACKOFF), random);
      if (now() + waitMs > end) {
        return { reason };
      }
      await wait(waitMs, this.#closing.signal);
      if (this.#closing.signal.aborted) {
        return { reason };
      }
    }
  }

  /** Cancels the delay between rounds; no further round starts. */
  close(): void {
    this.#closing.abort();
  }
}
