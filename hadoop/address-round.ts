import { setTimeout as delay } from 'node:timers/promises';

const FIRST_DELAY_MS = 50;
const LONGEST_DELAY_MS = 2_000;

/** What one try came to: a result, or a reason to try again. What is thrown ends the tries. */
export type Outcome<T> = { readonly result: T } | { readonly again: string };

/** What passes the time between two rounds. */
export interface Pacing {
  /** ms. */
  readonly now: () => number;
  /** From 0 up to 1: many who lost the same server do not come back all at once. */
  readonly random: () => number;
  /** Rejects when the signal ends it. */
  readonly wait: (ms: number, signal: AbortSignal) => Promise<void>;
}

const REAL_PACING: Pacing = {
  now: () => performance.now(),
  random: Math.random,
  wait: (ms, signal) => delay(ms, undefined, { signal }),
};

/**
 * Tries addresses in turn, the one that answered last first, and waits longer after each round in which none did,
 * until there is a result or patience is at its end.
 */
export class AddressRound {
  readonly #addresses: readonly string[];
  readonly #patienceMs: number;
  readonly #pacing: Pacing;
  readonly #closing = new AbortController();
  #answered = 0;

  constructor(addresses: readonly string[], patienceMs: number, pacing: Pacing = REAL_PACING) {
    this.#addresses = addresses;
    this.#patienceMs = patienceMs;
    this.#pacing = pacing;
  }

  /** Answers the last try's reason when patience has ended. */
  async run<T>(attempt: (address: string) => Promise<Outcome<T>>): Promise<{ readonly result: T } | { readonly reason: string }> {
    const { now, random, wait } = this.#pacing;
    const end = now() + this.#patienceMs;
    let reason = 'no address is known';
    for (let round = 0; ; round += 1) {
      const first = this.#answered;
      for (let turn = 0; turn < this.#addresses.length; turn += 1) {
        const index = (first + turn) % this.#addresses.length;
        const address = this.#addresses[index] ?? '';
        const outcome = await attempt(address);
        if ('result' in outcome) {
          this.#answered = index;
          return outcome;
        }
        reason = `${address}: ${outcome.again}`;
      }
      const pause = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** round) * (0.5 + random() / 2);
      if (now() + pause > end) return { reason };
      await wait(pause, this.#closing.signal).catch(() => undefined);
      if (this.#closing.signal.aborted) return { reason };
    }
  }

  /** No try begins from here on. */
  close(): void {
    this.#closing.abort();
  }
}
