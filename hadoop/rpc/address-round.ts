import { backoffMs, jittered, pause } from '../../platform/backoff.ts';

const BACKOFF = { firstMs: 50, mostMs: 2_000 };

/** The result of an attempt, or the reason for a retry. */
export type Outcome<T> = { readonly result: T } | { readonly again: string };

/** Supplies time, jitter and delays. Tests pass a simulated implementation. */
export interface Pacing {
  /** Returns a monotonic time in ms. */
  readonly now: () => number;
  /** Returns a random number in [0, 1). The jitter prevents many clients from reconnecting at the same moment. */
  readonly random: () => number;
  /** Waits for `ms`, or until the signal aborts. */
  readonly wait: (ms: number, signal: AbortSignal) => Promise<void>;
}

const REAL_PACING: Pacing = {
  now: () => performance.now(),
  random: Math.random,
  wait: pause,
};

/**
 * Tries addresses in turn until an attempt returns a result, an attempt throws, or the timeout `patienceMs` expires. Starts with the
 * address that responded last. The delay between rounds grows exponentially.
 */
export class AddressRound {
  readonly #addresses: readonly string[];
  readonly #patienceMs: number;
  readonly #firstPatienceMs: number;
  readonly #pacing: Pacing;
  readonly #closing = new AbortController();
  #answered = 0;
  #hasAnswered = false;

  /** @param options.firstPatienceMs timeout in ms before any address has responded; `patienceMs` is the default and the maximum */
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

  /** Returns the first result. After the timeout, returns the reason of the last failure instead. */
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

  /** Ends the current delay and prevents further rounds. */
  close(): void {
    this.#closing.abort();
  }
}
