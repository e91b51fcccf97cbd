import { readdirSync, readFileSync } from 'node:fs';
import { type ProcessStat, readStat } from '../../platform/process-stat.ts';

/** Keys in /proc/self/auxv, a list of key-value pairs of 64-bit words. */
const AT_PAGE_SIZE = 6;
const AT_CLOCK_TICKS = 17;

function auxiliary(key: number, otherwise: number): number {
  try {
    const bytes = readFileSync('/proc/self/auxv');
    for (let at = 0; at + 16 <= bytes.length; at += 16) {
      if (bytes.readBigUInt64LE(at) === BigInt(key)) {
        return Number(bytes.readBigUInt64LE(at + 8));
      }
    }
  } catch {
    // If /proc is unavailable, use the default value, which is correct on nearly all Linux systems.
  }
  return otherwise;
}

const PAGE_BYTES = auxiliary(AT_PAGE_SIZE, 4096);
const TICKS_PER_SECOND = auxiliary(AT_CLOCK_TICKS, 100);
/**
 * Minimum interval in ms between two searches through all processes on the machine. Between searches, only processes that have already been
 * found are sampled. On machines with thousands of processes, searches are slow, so the interval grows until searching takes at most
 * `SEARCH_SHARE` of the time. The maximum interval is `LONGEST_SEARCH_MS`.
 */
const SEARCH_MS = 5_000;
const LONGEST_SEARCH_MS = 60_000;
const SEARCH_SHARE = 0.001;

export interface TreeUsage {
  readonly memoryBytes: number;
  readonly cpuCores: number;
  readonly stopped: boolean;
}

/** A process that leads a session and a process group, with all descendants that can be identified. */
export class ProcessTree {
  readonly #root: number;
  readonly #marker: string | null;
  #known: readonly number[];
  #searchAt = Number.NEGATIVE_INFINITY;
  #ticks = new Map<number, number>();
  #sampledAt: number;

  /** @param marker an environment variable, `NAME=VALUE`, that only this tree's processes have, or null */
  constructor(root: number, now: number, marker: string | null = null) {
    this.#marker = marker;
    this.#root = root;
    this.#known = [root];
    this.#sampledAt = now;
  }

  sample(now: number): TreeUsage {
    const stats = now >= this.#searchAt ? this.#search(now) : this.#known.map(readStat).filter((stat) => stat !== null);
    const ticks = new Map(stats.map((stat) => [stat.pid, stat.ticks]));
    let used = 0;
    for (const [pid, total] of ticks) {
      used += Math.max(0, total - (this.#ticks.get(pid) ?? 0));
    }
    const seconds = (now - this.#sampledAt) / 1000;
    this.#ticks = ticks;
    this.#sampledAt = now;
    return {
      memoryBytes: stats.reduce((sum, { pages }) => sum + pages, 0) * PAGE_BYTES,
      cpuCores: seconds > 0 ? used / TICKS_PER_SECOND / seconds : 0,
      stopped: stats.some(({ state }) => state === 'T'),
    };
  }

  members(): readonly number[] {
    return this.#living().map(({ pid }) => pid);
  }

  /**
   * Returns running processes that are outside the root's process group. A signal to this group does not reach them. For example, `timeout`
   * and job control create separate groups.
   */
  membersOutsideGroup(): readonly number[] {
    return this.#living()
      .filter(({ group }) => group !== this.#root)
      .map(({ pid }) => pid);
  }

  /** Returns running processes that have inherited the marker in their environment, including daemons with their own session. */
  marked(): readonly number[] {
    return this.#marker === null ? [] : processIds().filter((pid) => pid !== process.pid && hasVariable(pid, this.#marker ?? ''));
  }

  #living(): readonly ProcessStat[] {
    return this.#search(Number.NEGATIVE_INFINITY).filter(({ state }) => state !== 'Z');
  }

  #search(now: number): readonly ProcessStat[] {
    const began = performance.now();
    const all = new Map<number, ProcessStat>();
    for (const name of processIds()) {
      const stat = readStat(name);
      if (stat !== null) {
        all.set(stat.pid, stat);
      }
    }
    const belongs = new Map<number, boolean>();
    const isMember = (stat: ProcessStat | undefined): boolean => {
      if (stat === undefined) {
        return false;
      }
      const known = belongs.get(stat.pid);
      if (known !== undefined) {
        return known;
      }
      // Set the result before the recursive call, because a pid that is reused during the search can cause a cycle.
      belongs.set(stat.pid, false);
      const member = stat.pid === this.#root || stat.session === this.#root || stat.group === this.#root || isMember(all.get(stat.parent));
      belongs.set(stat.pid, member);
      return member;
    };
    const members = [...all.values()].filter(isMember);
    this.#known = members.map(({ pid }) => pid);
    this.#searchAt = now + Math.min(LONGEST_SEARCH_MS, Math.max(SEARCH_MS, (performance.now() - began) / SEARCH_SHARE));
    return members;
  }
}

function hasVariable(pid: number, variable: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0').includes(variable);
  } catch {
    // The process has ended, or belongs to another user.
    return false;
  }
}

function processIds(): number[] {
  try {
    return readdirSync('/proc')
      .map(Number)
      .filter((pid) => pid > 0);
  } catch {
    return [];
  }
}
