import { readFileSync } from 'node:fs';

/*
 * Fields of /proc/PID/stat that `parseStat` uses; see proc(5):
 *
 *   1 pid   2 (comm)   3 state   4 ppid   5 pgrp   6 session   14 utime   15 stime   22 starttime   24 rss in pages
 *
 * A program can set comm to any text, including spaces and parentheses. The other fields follow the last closing parenthesis.
 */
export interface ProcessStat {
  readonly pid: number;
  /** State of the process, as one letter. `T` means that a signal has stopped the process. */
  readonly state: string;
  readonly parent: number;
  readonly group: number;
  readonly session: number;
  /** User and system CPU time in clock ticks. */
  readonly ticks: number;
  /** Start time in clock ticks since boot. The start time and the pid together identify a process uniquely. */
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

/** Reads the status of a process. Returns null if the process does not exist. */
export function readStat(pid: number): ProcessStat | null {
  try {
    return parseStat(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return null;
  }
}
