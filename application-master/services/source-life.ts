import { TonyError } from '../../platform/errors.ts';

/**
 * Time in ms after which a source counts as lost if its connection has closed, as it does when its process ends. A source that cannot reach
 * the job for 2 minutes kills it, with an error that names both addresses.
 */
const LEFT_MS = 3 * 60_000;
/** The same for a source that has only become silent, for example because its machine sleeps. */
const SILENT_MS = 10 * 60_000;

/** Knows whether the Spark program that sends a feed lives. Its driver asks again whenever it has got an answer. */
export class SourceLife {
  #heardAt: number;
  #leftAt: number | null = null;

  /** @param now time in ms */
  constructor(now: number) {
    this.#heardAt = now;
  }

  /** A task of Spark has asked. Tasks may outlive the driver for some seconds. */
  taskAsked(now: number): void {
    this.#heardAt = now;
  }

  driverAsked(now: number): void {
    this.#heardAt = now;
    this.#leftAt = null;
  }

  /** The driver's connection has closed before it has got an answer. */
  driverLeft(now: number): void {
    this.#leftAt ??= now;
  }

  /**
   * @param what the feed, for the message
   * @param reachableSince time since which the source has been able to reach the job at the same addresses
   * @throws TonyError FEED_LOST
   */
  require(what: string, reachableSince: number, now: number): void {
    if (now - Math.max(this.#heardAt, reachableSince) > SILENT_MS) {
      throw new TonyError('FEED_LOST', `the program that sends ${what} has not been reachable for ${SILENT_MS / 60_000} min`);
    }
    if (this.#leftAt !== null && now - Math.max(this.#leftAt, reachableSince) > LEFT_MS) {
      throw new TonyError(
        'FEED_LOST',
        `the program that sends ${what} has closed its connection, and has not come back for ${LEFT_MS / 60_000} min`,
      );
    }
  }
}
