import { pause } from '../../platform/backoff.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { untilAborted } from '../../platform/until-aborted.ts';

/** How long a command that follows a job tolerates an unreachable cluster by default (ms). The job itself keeps running. */
export const PATIENCE_MS = 600_000;
const RETRY_EVERY_MS = 500;

/** Tolerates an outage of a cluster that has answered before, such as a failover to another ResourceManager. */
export class Patience {
  readonly #limitMs: number;
  readonly #clock: () => number;
  #answered = false;
  #awaySince: number | null = null;

  constructor(limitMs: number = PATIENCE_MS, clock: () => number = () => performance.now()) {
    this.#limitMs = limitMs;
    this.#clock = clock;
  }

  /** Records an answer. Returns the notice that the cluster is reachable again; null if it was reachable before. */
  answered(): string | null {
    const back = this.#awaySince !== null;
    this.#answered = true;
    this.#awaySince = null;
    return back ? 'The cluster is reachable again.' : null;
  }

  /**
   * Records a failed request. Returns the notice that the cluster is unreachable; null if the outage has already been reported.
   * @throws `error` itself when it is not a connection error, when the cluster has never answered, or when the outage exceeds the limit.
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

/** Runs `work`, retrying while a cluster that has answered before is unreachable. @throws what `work` throws, or the signal's reason */
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
