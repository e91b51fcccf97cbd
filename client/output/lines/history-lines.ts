import { describeEntry, describeFirstFailure, nodeBesideText, subjectOf } from '../../../conf/status/event-text.ts';
import { jobDurationText } from '../../../conf/status/job-duration.ts';
import { jobInfo } from '../../../conf/status/job-info.ts';
import type { HistoryEntry, JobStatus } from '../../../conf/status/status.ts';
import { lostNodes, lostNodesText } from '../../connections/operations/lost-nodes.ts';
import type { HistoryJob } from '../../history/history-index.ts';
import { clockTime, fullTime, shortTime } from '../../terminal/clock.ts';
import { fittedTable } from '../../terminal/fitted-table.ts';
import { clip, oneLine, type Terminal, wrap } from '../../terminal/terminal.ts';
import { failureLines } from './failure-lines.ts';
import { jobStyle, nodeName } from './job-table.ts';
import { statusLines } from './status-lines.ts';

/** Maximum number of events to show. Older events are omitted. */
const EVENTS_SHOWN = 20;
const LONGEST_USER = 12;
const LOST_LINES = 3;

/** Returns one line per job, clipped to the terminal width. */
export function historyTable(jobs: readonly HistoryJob[], terminal: Terminal, withUsers: boolean): string[] {
  return fittedTable(
    jobs,
    [
      { title: 'JOB', cell: ({ place }) => place.jobId, keep: 6 },
      { title: 'NAME', cell: ({ status }) => oneLine(status.name) || '-', least: 8, keep: 1 },
      { title: 'USER', cell: ({ place }) => clip(oneLine(place.user), LONGEST_USER), keep: 4, when: () => withUsers },
      { title: 'STATE', cell: ({ status }) => status.state, style: ({ status }) => jobStyle(status.state), keep: 5 },
      { title: 'SUBMITTED', cell: ({ status }) => shortTime(status.createdAt), keep: 3 },
      {
        title: 'TOOK',
        cell: ({ status }) => (status.finishedAt === null ? '-' : jobDurationText(status, status.finishedAt)),
        align: 'right',
        keep: 2,
      },
    ],
    terminal,
  );
}

/** Describes a job from its history. A failure comes last, so that users see it above the shell prompt. */
export function historyDetails(
  job: { readonly folder: string; readonly status: JobStatus; readonly entries: readonly HistoryEntry[] },
  terminal: Terminal,
): string[] {
  const { status, entries, folder } = job;
  const ended = status.finishedAt;
  const width = Math.max(40, terminal.columns - 1);
  const lines = [
    clip(`${status.id}  ${terminal.paint(jobStyle(status.state), status.state)}  ${oneLine(status.name)}`.trimEnd(), width),
    `submitted by ${oneLine(status.user)} to queue ${oneLine(status.queue) || '-'}`,
    `submitted ${submissionOf(status)}${ended === null ? '' : `, ended ${fullTime(ended)}, took ${jobDurationText(status, ended)}`}`,
    `history: ${oneLine(folder)}`,
  ];
  // Lost nodes have their own line, because they may have been lost before the first event that is listed below.
  const lost = lostNodesText(lostNodes(entries));
  if (lost !== '') {
    lines.push(...wrap(oneLine(`lost nodes: ${lost}`), width, LOST_LINES));
  }
  const shown = entries.slice(-EVENTS_SHOWN);
  if (shown.length > 0) {
    lines.push(
      '',
      terminal.paint('dim', shown.length < entries.length ? `the last ${shown.length} of ${entries.length} events` : 'events'),
    );
  }
  const rows = [...new Set(entries.map(({ node = null }) => node))].map((node) => ({ node }));
  for (const entry of shown) {
    lines.push(eventText(entry, width, rows));
  }
  lines.push('');
  lines.push(...statusLines(jobInfo(status), terminal, Date.now()));
  const { failure } = status;
  if (failure !== null) {
    lines.push('', terminal.paint('bold', 'first failure'), ...failureLines(describeFirstFailure(failure), failure.lines, width));
  }
  return lines;
}

function eventText(entry: HistoryEntry, width: number, rows: readonly { readonly node: string | null }[]): string {
  const { at, type } = entry;
  const node = nodeBesideText(entry);
  const subject = subjectOf(entry);
  const where = node === undefined ? '' : ` on ${nodeName(node, rows)}`;
  const [what = ''] = describeEntry(entry).split('\n');
  return clip(oneLine(`${clockTime(at)} ${type}${subject === '' ? '' : ` ${subject}`}${where}${what === '' ? '' : `: ${what}`}`), width);
}

function submissionOf({ createdAt }: JobStatus): string {
  const time = fullTime(createdAt);
  return time === '-' ? 'at an unknown time' : time;
}
