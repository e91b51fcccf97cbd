import { pause } from '../../platform/async/backoff.ts';
import { untilAborted } from '../../platform/async/until-aborted.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';

/** Default time (ms) after which commands that follow a job give up on an unreachable cluster. */
export const MAX_WAIT_MS = 600_000;
const RETRY_EVERY_MS = 500;

/**
 * Decides whether a client retries while the cluster is unreachable, for example during a failover, or while the user has no valid Kerberos
 * ticket. Never retries if the cluster has never responded.
 */
export class OutageTolerance {
  readonly #limitMs: number;
  readonly #clock: () => number;
  #answered = false;
  #awaySince: number | null = null;
  #lacksTicket = false;

  constructor(limitMs: number = MAX_WAIT_MS, clock: () => number = () => performance.now()) {
    this.#limitMs = limitMs;
    this.#clock = clock;
  }

  /** Records a successful request. Returns a notice if the request ended an outage, or null otherwise. */
  answered(): string | null {
    const back = this.#awaySince !== null;
    this.#answered = true;
    this.#awaySince = null;
    return !back ? null : this.#lacksTicket ? 'The new Kerberos ticket is valid.' : 'The cluster is reachable again.';
  }

  /**
   * Records a failed request. Returns a notice for the first failure of an outage, and null for later failures.
   * @throws `error` if it is not a connection error, if the cluster has never responded, or if the outage exceeds the limit. There is no
   *   limit for a missing ticket, because its user may be away.
   */
  missed(error: unknown): string | null {
    if (!isAway(error) || !this.#answered) {
      throw error;
    }
    const now = this.#clock();
    if (this.#awaySince === null || this.#lacksTicket !== isTicketMissing(error)) {
      this.#awaySince = now;
      this.#lacksTicket = isTicketMissing(error);
      const step = this.#lacksTicket ? 'In another terminal, run kinit: this command then continues.' : 'Retrying.';
      return `${messageOf(error)} The job continues to run. ${step}`;
    }
    if (!this.#lacksTicket && now - this.#awaySince > this.#limitMs) {
      throw error;
    }
    return null;
  }
}

/**
 * Runs `work`, and retries it while the cluster is unreachable.
 * @throws any error that `work` throws for another reason, or the signal's abort reason
 */
export async function toleratingOutages<T>(
  work: () => Promise<T>,
  {
    maxWaitMs,
    intervalMs = RETRY_EVERY_MS,
    signal,
  }: { readonly maxWaitMs?: number; readonly intervalMs?: number; readonly signal?: AbortSignal } = {},
): Promise<T> {
  const outage = new OutageTolerance(maxWaitMs);
  outage.answered();
  for (;;) {
    signal?.throwIfAborted();
    try {
      return await untilAborted(work(), signal);
    } catch (error) {
      outage.missed(error);
    }
    await pause(intervalMs, signal);
  }
}

/** Returns true for errors that indicate that the cluster is unreachable, or that the user needs a new ticket to reach it. */
export function isAway(error: unknown): boolean {
  return error instanceof TonyError && (error.unreachable || isTicketMissing(error));
}

function isTicketMissing(error: unknown): boolean {
  return error instanceof TonyError && (error.code === 'KERBEROS_TICKET_EXPIRED' || error.code === 'KERBEROS_TICKET_NOT_FOUND');
}
