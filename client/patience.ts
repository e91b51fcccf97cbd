import { setTimeout as delay } from 'node:timers/promises';
import { messageOf, TonyError } from '../conf/errors.ts';
import { untilAborted } from './until-aborted.ts';

/** How long the cluster may be away from someone who follows a job, when nothing else is said: the job does not need us. */
export const PATIENCE_MS = 600_000;
const RETRY_EVERY_MS = 500;

/** Bears with a cluster that has answered once and then is away for a while, as it is while another ResourceManager takes over. */
export class Patience {
  readonly #limitMs: number;
  readonly #clock: () => number;
  #answered = false;
  #awaySince: number | null = null;

  constructor(limitMs: number = PATIENCE_MS, clock: () => number = () => performance.now()) {
    this.#limitMs = limitMs;
    this.#clock = clock;
  }

  /** What there is to say: that it is back; null when it was never away. */
  answered(): string | null {
    const back = this.#awaySince !== null;
    this.#answered = true;
    this.#awaySince = null;
    return back ? 'The cluster answers again.' : null;
  }

  /**
   * What there is to say: that it is away; null when that has been said.
   * @throws `error` itself when it is of another kind, when the cluster has never answered, or has been away for too long.
   */
  missed(error: unknown): string | null {
    if (!isAway(error) || !this.#answered) throw error;
    const now = this.#clock();
    if (this.#awaySince === null) {
      this.#awaySince = now;
      return `${messageOf(error)} The job goes on; trying again.`;
    }
    if (now - this.#awaySince > this.#limitMs) throw error;
    return null;
  }
}

/** The outcome of `work`, which is tried again while the cluster is away: it has answered before. @throws what `work` throws, or the signal's reason */
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
    await delay(intervalMs, undefined, { ...(signal && { signal }) }).catch(() => undefined);
  }
}

/** Whether it says that the cluster cannot be reached, which may be otherwise in a moment. */
export function isAway(error: unknown): boolean {
  return error instanceof TonyError && error.exitCode === 3;
}
