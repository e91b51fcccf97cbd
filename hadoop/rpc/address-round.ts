import { backoffMs, jittered, pause } from '../../platform/async/backoff.ts';
import type { ErrorCode, TonyError } from '../../platform/errors.ts';
import { reportSkippedServer } from '../tls/skipped-servers.ts';

const BACKOFF = { firstMs: 50, mostMs: 2_000 };

/**
 * The result of an attempt, or the reason for a retry. `rejected` is set if this client does not trust the server's certificate. In that
 * case, a retry at the same address would also fail. `code` is set if the server responded that it cannot serve the request at present.
 */
export type Outcome<T> = { readonly result: T } | { readonly again: string; readonly rejected?: TonyError; readonly code?: ErrorCode };

/** The reason for the last failure, and the code of the error if a server responded with one. */
export interface RoundFailure {
  readonly reason: string;
  readonly code?: ErrorCode;
}

/**
 * Converts an error to an outcome if the error affects only one server, as TLS failures do. Throws all other errors, because they would
 * occur on every server.
 */
export function outcomeOf(error: TonyError): { readonly again: string; readonly rejected: TonyError } {
  if (error.code !== 'TLS_FAILED') {
    throw error;
  }
  return { again: error.message.replace(/\.$/, ''), rejected: error };
}

/** Clock, random numbers and delays. Tests replace them with a simulation. */
export interface Pacing {
  /** Returns a monotonic time in ms. */
  readonly now: () => number;
  /** Returns a random number in [0, 1). It varies the delays, so that many clients do not reconnect at the same moment. */
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
 * Tries addresses one after the other until an attempt returns a result or throws, or until a timeout. Starts with the address that
 * responded last. The delay between rounds grows exponentially. Servers whose certificates this client does not trust are skipped, and
 * reported after another server has responded.
 */
export class AddressRound {
  readonly #addresses: readonly string[];
  readonly #maxWaitMs: number;
  readonly #maxFirstWaitMs: number;
  readonly #pacing: Pacing;
  readonly #closing = new AbortController();
  #answered = 0;
  #hasAnswered = false;

  /**
   * @param maxWaitMs timeout in ms
   * @param options.maxFirstWaitMs timeout in ms while no address has responded yet, or while servers respond that they cannot serve the
   *   request; at most `maxWaitMs`, which is also the default
   */
  constructor(
    addresses: readonly string[],
    maxWaitMs: number,
    { maxFirstWaitMs = maxWaitMs, pacing = REAL_PACING }: { readonly maxFirstWaitMs?: number | undefined; readonly pacing?: Pacing } = {},
  ) {
    this.#addresses = addresses;
    this.#maxWaitMs = maxWaitMs;
    this.#maxFirstWaitMs = maxFirstWaitMs;
    this.#pacing = pacing;
  }

  /**
   * Returns the first result. If the timeout expires before that, returns the reason for the last failure.
   * @throws TonyError TLS_FAILED if this client trusts none of the servers
   */
  async run<T>(attempt: (address: string) => Promise<Outcome<T>>): Promise<{ readonly result: T } | RoundFailure> {
    const { now, random, wait } = this.#pacing;
    const firstEnd = now() + Math.min(this.#maxFirstWaitMs, this.#maxWaitMs);
    const end = this.#hasAnswered ? now() + this.#maxWaitMs : firstEnd;
    let reason = 'no address is known';
    for (let round = 1; ; round += 1) {
      const first = this.#answered;
      const rejected: TonyError[] = [];
      let code: ErrorCode | undefined;
      for (let turn = 0; turn < this.#addresses.length; turn += 1) {
        const index = (first + turn) % this.#addresses.length;
        const address = this.#addresses[index] ?? '';
        const outcome = await attempt(address);
        if ('result' in outcome) {
          this.#answered = index;
          this.#hasAnswered = true;
          for (const each of rejected) {
            reportSkippedServer(each);
          }
          return outcome;
        }
        if (outcome.rejected !== undefined) {
          rejected.push(outcome.rejected);
        } else if (code === undefined) {
          // An active NameNode in safe mode explains a failure better than a standby NameNode does.
          code = outcome.code;
          reason = `${address}: ${outcome.again}`;
        }
      }
      const [untrusted] = rejected;
      if (untrusted !== undefined && rejected.length === this.#addresses.length) {
        throw untrusted;
      }
      const waitMs = jittered(backoffMs(round, BACKOFF), random);
      const failure = {
        ...(code !== undefined && { code }),
        reason: [reason, ...rejected.map(({ message }) => message.replace(/\.$/, ''))].join('. '),
      };
      if (now() + waitMs > (code === undefined ? end : firstEnd)) {
        return failure;
      }
      await wait(waitMs, this.#closing.signal);
      if (this.#closing.signal.aborted) {
        return failure;
      }
    }
  }

  /** True if an address has responded. */
  get hasAnswered(): boolean {
    return this.#hasAnswered;
  }

  /** Interrupts the current delay and prevents further rounds. */
  close(): void {
    this.#closing.abort();
  }
}
