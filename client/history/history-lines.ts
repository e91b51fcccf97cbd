import type { HistoryEntry, JobStatus } from '../../conf/status.ts';
import { formatDuration } from '../../conf/units.ts';
import { clockTime, fullTime, shortTime } from '../clock.ts';
import { failureLines } from '../failure-lines.ts';
import { jobStyle, oneLine } from '../job-table.ts';
import { statusLines } from '../status-lines.ts';
import { tableLines } from '../table-lines.ts';
import { clip, type Terminal } from '../terminal.ts';
import type { ListedJob } from './history-index.ts';

/** The newest events are those that matter. */
const EVENTS_SHOWN = 20;
const LONGEST_USER = 12;

/** A line for each job, none wider than the terminal. */
export function historyTable(jobs: readonly ListedJob[], terminal: Terminal, withUsers: boolean): string[] {
  return tableLines(
    jobs,
    [
      { title: 'JOB', cell: ({ place }) => place.applicationId },
      { title: 'NAME', cell: ({ status }) => oneLine(status.name) || '-', flexible: true },
      ...(withUsers ? [{ title: 'USER', cell: ({ place }: ListedJob) => clip(place.user, LONGEST_USER) }] : []),
      { title: 'STATE', cell: ({ status }) => status.state, style: ({ status }) => jobStyle(status.state) },
      { title: 'STARTED', cell: ({ status }) => shortTime(status.startedAt) },
      { title: 'TOOK', cell: ({ status }) => (status.finishedAt === null ? '-' : took(status)), align: 'right' },
    ],
    terminal,
  );
}

/** A finished job as `status` shows it, and what else its history tells: why it failed last, where the eye is. */
export function historyDetails(
  job: { readonly folder: string; readonly status: JobStatus; readonly entries: readonly HistoryEntry[] },
  terminal: Terminal,
): string[] {
  const { status, entries, folder } = job;
  const width = Math.max(40, terminal.columns - 1);
  const lines = [
    `submitted by ${oneLine(status.user)} to queue ${oneLine(status.queue) || '-'}`,
    `started ${startOf(status)}${status.finishedAt === null ? '' : `, ended ${fullTime(status.finishedAt)}, took ${took(status)}`}`,
    `history: ${folder}`,
  ];
  const shown = entries.slice(-EVENTS_SHOWN);
  if (shown.length > 0)
    lines.push(
      '',
      terminal.paint('dim', shown.length < entries.length ? `the last ${shown.length} of ${entries.length} events` : 'events'),
    );
  for (const entry of shown) lines.push(eventText(entry, width));
  lines.push('');
  const over = status.state === 'SUCCEEDED' || status.state === 'FAILED' || status.state === 'KILLED';
  const result = over ? { state: status.state as 'SUCCEEDED' | 'FAILED' | 'KILLED', diagnostics: status.message } : null;
  const observation = { phase: status.state, waiting: '', status, result };
  lines.push(...statusLines({ applicationId: status.applicationId, pages: null }, observation, terminal, Date.now()));
  const { failure } = status;
  if (failure !== null) lines.push('', terminal.paint('bold', 'first failure'), ...failureLines(failure, width));
  return lines;
}

function eventText({ at, event, role, index, node, detail }: HistoryEntry, width: number): string {
  const who = role === undefined ? '' : index === undefined ? ` ${role}` : ` ${role}:${index}`;
  const where = node === undefined ? '' : ` on ${node.replace(/:\d+$/, '')}`;
  const what = detail === undefined ? '' : `: ${detail.split('\n')[0] ?? ''}`;
  return clip(oneLine(`${clockTime(at)} ${event}${who}${where}${what}`), width);
}

function took({ startedAt, finishedAt }: JobStatus): string {
  const ms = Math.max(0, (finishedAt ?? startedAt) - startedAt);
  return formatDuration(ms < 60_000 ? ms : 1000 * Math.round(ms / 1000));
}

function startOf({ startedAt }: JobStatus): string {
  const time = fullTime(startedAt);
  return time === '-' ? 'at a time unknown' : time;
}
