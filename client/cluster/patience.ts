import { pause } from '../../platform/backoff.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { untilAborted } from '../../platform/until-aborted.ts';

/** The default time (ms) for which a command that follows a job tolerates an unreachable cluster. The job itself keeps running. */
export const PATIENCE_MS = 600_000;
const RETRY_EVERY_MS = 500;

/** Decides whether a client waits for an unreachable cluster. Waits only for a cluster that has answered before, for example during a failover. */
export class Patience {
  readonly #limitMs: number;
  readonly #clock: () => number;
  #answered = false;
  #awaySince: number | null = null;

  constructor(limitMs: number = PATIENCE_MS, clock: () => number = () => performance.now()) {
    this.#limitMs = limitMs;
    this.#clock = clock;
  }

  /** Records an answer. After an outage, returns the notice that the cluster is reachable again; otherwise null. */
  answered(): string | null {
    const back = this.#awaySince !== null;
    this.#answered = true;
    this.#awaySince = null;
    return back ? 'The cluster is reachable again.' : null;
  }

  /**
   * Records a failed request. Returns the notice that the cluster is unreachable; null after the first failure of an outage.
   * @throws `error` itself if it is not a connection error, if the cluster has never answered, or if the outage exceeds the limit.
   */
  missed(error: unknown): string | null {
    if (!isAway(error) || !this.#answered) {
      throw error;
    }
    const now = this.#clock();
    if (this.#awaySince === null) {
      this.#awaySince = now;
      return `${messageOf(error)} The job continues to run. Retrying.`;
    }
    if (now - this.#awaySince > this.#limitMs) {
      throw error;
    }
    return null;
  }
}

/** Runs `work`, and retries it while the cluster is unreachable. @throws the other errors of `work`, or the signal's reason */
export async function patiently<T>(
  work: () => Promise<T>,
  {
    patienceMs,
    intervalMs = RETRY_EVERY_MS,
    signal,
  }: { readonly patienceMs?: number; readonly intervalMs?: number; readonly signal?: AbortSignal } = {},
): Promise<T> {
  const patience = new Patience(patienceMs);
  patience.answered();
  for (;;) {
    signal?.throwIfAborted();
    try {
      return await untilAborted(work(), signal);
    } catch (error) {
      patience.missed(error);
    }
    await pause(intervalMs, signal);
  }
}

/** Whether the error reports that the cluster is unreachable, which may be temporary. */
export function isAway(error: unknown): boolean {
  return error instanceof TonyError && error.exitCode === 3;
}
