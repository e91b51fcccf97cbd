import { readdirSync, readFileSync } from 'node:fs';

/*
 * The fields of /proc/PID/stat that `parseStat` reads, see proc(5):
 *
 *   1 pid   2 (comm)   3 state   4 ppid   5 pgrp   6 session   14 utime   15 stime   22 starttime   24 rss in pages
 *
 * The program chooses comm, which may contain blanks and parentheses: the remaining fields begin after the last closing parenthesis.
 */
export interface ProcessStat {
  readonly pid: number;
  /** One letter; T means stopped by a signal. */
  readonly state: string;
  readonly parent: number;
  readonly group: number;
  readonly session: number;
  /** User and system time, in clock ticks. */
  readonly ticks: number;
  /** Clock ticks after boot; together with the pid it identifies a process uniquely. */
  readonly startTime: number;
  readonly pages: number;
}

export function parseStat(text: string): ProcessStat | null {
  const end = text.lastIndexOf(')');
  const pid = Number.parseInt(text, 10);
  const fields = text.slice(end + 2).split(' ');
  const number = (field: number): number => Number(fields[field - 3]);
  const stat = {
    pid,
    state: fields[0] ?? '',
    parent: number(4),
    group: number(5),
    session: number(6),
    ticks: number(14) + number(15),
    startTime: number(22),
    pages: number(24),
  };
  return end > 0 && Number.isInteger(pid) && Number.isFinite(stat.ticks) && Number.isFinite(stat.pages) ? stat : null;
}

export function readStat(pid: number): ProcessStat | null {
  try {
    return parseStat(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return null;
  }
}

/** Keys in /proc/self/auxv, a list of pairs of 64-bit words: key and value. */
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
    // Without /proc, use the value of nearly every Linux system.
  }
  return otherwise;
}

const PAGE_BYTES = auxiliary(AT_PAGE_SIZE, 4096);
const TICKS_PER_SECOND = auxiliary(AT_CLOCK_TICKS, 100);
/**
 * The minimum pause between two searches through all processes of the machine (ms). Between searches, only the known processes are read. A
 * search is slow on a machine with thousands of processes. The pause therefore grows until searches take at most `SEARCH_SHARE` of the
 * time; its maximum is `LONGEST_SEARCH_MS`.
 */
const SEARCH_MS = 5_000;
const LONGEST_SEARCH_MS = 60_000;
const SEARCH_SHARE = 0.005;

export interface TreeUsage {
  readonly rssBytes: number;
  readonly cpuCores: number;
  /** True if a signal has stopped any of the processes. */
  readonly stopped: boolean;
}

/** A process that leads its own session and group, and all of its descendants that can be identified. */
export class ProcessTree {
  readonly #root: number;
  #known: readonly number[];
  #searchAt = Number.NEGATIVE_INFINITY;
  #ticks = new Map<number, number>();
  #sampledAt: number;

  constructor(root: number, now: number) {
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
      rssBytes: stats.reduce((sum, { pages }) => sum + pages, 0) * PAGE_BYTES,
      cpuCores: seconds > 0 ? used / TICKS_PER_SECOND / seconds : 0,
      stopped: stats.some(({ state }) => state === 'T'),
    };
  }

  /** All living processes, including the root. */
  members(): readonly number[] {
    return this.#living().map(({ pid }) => pid);
  }

  /** Living processes that a signal to the root's process group does not reach: `timeout` and job control create their own groups. */
  membersOutsideGroup(): readonly number[] {
    return this.#living()
      .filter(({ group }) => group !== this.#root)
      .map(({ pid }) => pid);
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
      // Set before the recursion, because a pid that is reused during the search can cause a cycle.
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

function processIds(): number[] {
  try {
    return readdirSync('/proc')
      .map(Number)
      .filter((pid) => pid > 0);
  } catch {
    return [];
  }
}
