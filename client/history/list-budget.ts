import { counted } from '../../conf/values/quantities.ts';

export interface ListLimits {
  readonly userBytes: number;
  /** Maximum time (ms) to read one user's histories. */
  readonly userMs: number;
  /** Maximum time (ms) for the whole list. */
  readonly ms: number;
}

const MOST_NAMED = 3;

interface Share {
  bytes: number;
  ms: number;
  leftOut: number;
}

/**
 * Limits the amount of work for one job list. Users have separate budgets, so that one user's many or large histories do not push other
 * users' jobs out of the list.
 */
export class ListBudget {
  readonly #limits: ListLimits;
  readonly #now: () => number;
  readonly #end: number;
  readonly #shares = new Map<string, Share>();

  /** @param now monotonic clock in ms */
  constructor(limits: ListLimits, now: () => number) {
    this.#limits = limits;
    this.#now = now;
    this.#end = now() + limits.ms;
  }

  /**
   * Charges bytes to a user's budget, and returns false if the budget is exceeded. After that, all calls for this user return false, so
   * that the list contains the user's newest jobs without gaps.
   */
  take(user: string, bytes: number): boolean {
    const share = this.#of(user);
    if (share.bytes < bytes || this.isOver(user)) {
      share.bytes = Number.NEGATIVE_INFINITY;
      return false;
    }
    share.bytes -= bytes;
    return true;
  }

  /** Charges the additional bytes if a read exceeded the estimate passed to `take`. */
  takeMore(user: string, bytes: number): void {
    this.#of(user).bytes -= bytes;
  }

  isOver(user: string): boolean {
    return this.#of(user).ms <= 0 || this.#now() >= this.#end;
  }

  /** Divides the duration of a concurrent read among the users whose histories were read, in proportion to the bytes read for each user. */
  spend(ms: number, read: readonly { readonly user: string; readonly bytes: number }[]): void {
    const sum = read.reduce((total, { bytes }) => total + bytes, 0);
    for (const { user, bytes } of read) {
      if (bytes > 0) {
        this.#of(user).ms -= (ms * bytes) / sum;
      }
    }
  }

  leaveOut(user: string): void {
    this.#of(user).leftOut++;
  }

  /** Description of the omitted jobs, or '' if no jobs were omitted. */
  get message(): string {
    const all = [...this.#shares].filter(([, { leftOut }]) => leftOut > 0).sort(([, a], [, b]) => b.leftOut - a.leftOut);
    if (all.length === 0) {
      return '';
    }
    const named = all.slice(0, MOST_NAMED).map(([user, { leftOut }]) => `${leftOut} of ${user}`);
    const others = all.slice(MOST_NAMED);
    const rest = others.reduce((sum, [, { leftOut }]) => sum + leftOut, 0);
    if (rest > 0) {
      named.push(`${rest} of ${counted(others.length, 'other user')}`);
    }
    return `Some histories are omitted because reading them takes too long: ${named.join(', ')}.`;
  }

  #of(user: string): Share {
    let share = this.#shares.get(user);
    if (share === undefined) {
      share = { bytes: this.#limits.userBytes, ms: this.#limits.userMs, leftOut: 0 };
      this.#shares.set(user, share);
    }
    return share;
  }
}
