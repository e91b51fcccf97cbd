import type { HistoryEntry, JobStatus } from '../../conf/status.ts';
import { formatDuration } from '../../conf/units.ts';
import { jobStyle, oneLine } from '../job-table.ts';
import { statusLines } from '../status-lines.ts';
import { clip, harmless, type Terminal, wrap } from '../terminal.ts';
import type { ListedJob } from './history-index.ts';

/** The newest events are those that matter. */
const EVENTS_SHOWN = 20;
const GAP = 2;
const LEAST_NAME = 8;

/** A line for each job, none wider than the terminal. */
export function historyTable(jobs: readonly ListedJob[], terminal: Terminal, withUsers: boolean): string[] {
  const width = Math.max(40, terminal.columns - 1);
  const rows = jobs.map(({ place, status }) => ({
    id: place.applicationId,
    name: oneLine(status.name) || '-',
    user: place.user,
    state: status.state,
    started: shortTime(status.startedAt),
    took: status.finishedAt === null ? '-' : took(status),
  }));
  const wide = (title: string, cells: readonly string[]): number => Math.max(title.length, ...cells.map((cell) => cell.length));
  const id = wide(
    'JOB',
    rows.map((row) => row.id),
  );
  const user = withUsers
    ? Math.min(
        12,
        wide(
          'USER',
          rows.map((row) => row.user),
        ),
      )
    : 0;
  const state = wide(
    'STATE',
    rows.map((row) => row.state),
  );
  const started = wide(
    'STARTED',
    rows.map((row) => row.started),
  );
  const spent = wide(
    'TOOK',
    rows.map((row) => row.took),
  );
  const fixed = id + state + started + spent + GAP * 4 + (withUsers ? user + GAP : 0);
  const name = Math.min(
    Math.max(LEAST_NAME, width - fixed),
    wide(
      'NAME',
      rows.map((row) => row.name),
    ),
  );
  const gap = ' '.repeat(GAP);
  const line = (
    cells: { id: string; name: string; user: string; state: string; started: string; took: string },
    paint: (text: string) => string,
  ): string =>
    [
      cells.id.padEnd(id),
      clip(cells.name, name).padEnd(name),
      ...(withUsers ? [clip(cells.user, user).padEnd(user)] : []),
      paint(cells.state.padEnd(state)),
      cells.started.padEnd(started),
      cells.took.padStart(spent),
    ].join(gap);
  const title = line({ id: 'JOB', name: 'NAME', user: 'USER', state: 'STATE', started: 'STARTED', took: 'TOOK' }, (text) => text);
  return [terminal.paint('dim', title), ...rows.map((row) => line(row, (text) => terminal.paint(jobStyle(row.state), text)))];
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
    `started ${fullTime(status.startedAt)}${status.finishedAt === null ? '' : `, ended ${fullTime(status.finishedAt)}, took ${took(status)}`}`,
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
  if (failure !== null) {
    const who = failure.task === null ? '' : `${failure.task}: `;
    lines.push('', terminal.paint('bold', 'first failure'), ...wrap(oneLine(`${who}${failure.text}`), width, 4));
    for (const line of failure.lines) lines.push(clip(`  ${harmless(line)}`, width));
  }
  return lines;
}

function eventText({ at, event, role, index, node, detail }: HistoryEntry, width: number): string {
  const who = role === undefined ? '' : index === undefined ? ` ${role}` : ` ${role}:${index}`;
  const where = node === undefined ? '' : ` on ${node.replace(/:\d+$/, '')}`;
  const what = detail === undefined ? '' : `: ${detail.split('\n')[0] ?? ''}`;
  return clip(oneLine(`${clock(at)} ${event}${who}${where}${what}`), width);
}

function took({ startedAt, finishedAt }: JobStatus): string {
  const ms = Math.max(0, (finishedAt ?? startedAt) - startedAt);
  return formatDuration(ms < 60_000 ? ms : 1000 * Math.round(ms / 1000));
}

function two(value: number): string {
  return String(value).padStart(2, '0');
}

/** In this machine's time zone, as clocks on its walls. */
function shortTime(ms: number): string {
  const time = new Date(ms);
  if (Number.isNaN(time.getTime()) || ms <= 0) return '-';
  return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} ${two(time.getHours())}:${two(time.getMinutes())}`;
}

function clock(ms: number): string {
  const time = new Date(ms);
  return Number.isNaN(time.getTime()) ? '--:--:--' : `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
}

function fullTime(ms: number): string {
  const short = shortTime(ms);
  return short === '-' ? 'at a time unknown' : `${short}:${two(new Date(ms).getSeconds())}`;
}
