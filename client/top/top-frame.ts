import type { TaskStatus } from '../../conf/status/status.ts';
import { counted } from '../../conf/values/quantities.ts';
import { formatDuration, formatMemory } from '../../conf/values/units.ts';
import { silenceText } from '../cluster/master-silence.ts';
import type { Observation } from '../connections/job-connection.ts';
import type { JobSummary } from '../listing/job-lister.ts';
import { jobLines, oneLine, TASK_COLUMNS, urgency } from '../output/lines/job-table.ts';
import { progressColumns } from '../output/lines/list-lines.ts';
import { fittedTable } from '../terminal/fitted-table.ts';
import { clip, type Terminal, wrap } from '../terminal/terminal.ts';
import { most, type Ordering, ordered, type TopView } from './top-view.ts';

export interface TopFrame {
  readonly lines: readonly string[];
  /** View with a scroll offset that does not exceed the number of rows. */
  readonly view: TopView;
}

export interface FrameNotes {
  /** Message for the user, for example that the cluster is unreachable. Empty if there is none. */
  readonly notice: string;
  readonly intervalMs: number;
}

const GPUS = 'yarn.io/gpu';

export const TASK_ORDERINGS: readonly Ordering<TaskStatus>[] = [
  { name: 'task', compare: () => 0 },
  { name: 'state', compare: (a, b) => urgency(a.state) - urgency(b.state) },
  { name: 'step', compare: (a, b) => a.step - b.step },
  { name: 'cpu', compare: most(({ usage }) => usage?.cpuCores) },
  { name: 'memory', compare: most(({ usage }) => usage?.rssBytes) },
  { name: 'gpu', compare: most(({ usage }) => usage?.gpus.reduce((sum, { utilization }) => sum + utilization, 0)) },
];

export const JOB_ORDERINGS: readonly Ordering<JobSummary>[] = [
  { name: 'newest', compare: () => 0 },
  {
    name: 'state',
    compare: (a, b) => Number(a.waiting === '') - Number(b.waiting === '') || (a.phase < b.phase ? -1 : a.phase > b.phase ? 1 : 0),
  },
  { name: 'memory', compare: most(({ used }) => used['memory-mb']) },
  { name: 'gpus', compare: most(({ used }) => used[GPUS]) },
  { name: 'tasks', compare: most(({ job, runningContainers }) => job?.tasksRunning ?? runningContainers) },
  { name: 'step', compare: most(({ job }) => job?.step) },
];

/** Returns the view of one job. It contains a line about the job, the reason if the job is waiting, and as many tasks as fit. */
export function jobFrame(
  applicationId: string,
  { status, phase, waiting, masterSilentMs }: Observation,
  view: TopView,
  notes: FrameNotes,
  terminal: Terminal,
  now: number,
): TopFrame {
  const width = roomOf(terminal);
  const silence = masterSilentMs === null ? [] : reasons(silenceText(masterSilentMs), terminal);
  if (status === null) {
    const lines = [clip(`${applicationId}  ${phase}`, width), ...reasons(waiting, terminal), ...silence];
    return { lines: framed(lines, [], TASK_ORDERINGS, view, notes, terminal), view: { ...view, offset: 0 } };
  }
  const job = [clip(terminal.live ? applicationId : '', width), ...jobLines(status, terminal, now, width)];
  const head = [...job, ...silence].filter((line) => line !== '');
  const tasks = ordered(status.tasks, TASK_ORDERINGS, view);
  return tableFrame(head, tasks, (rows) => fittedTable(rows, TASK_COLUMNS, terminal), TASK_ORDERINGS, view, notes, terminal);
}

/** Returns the view of several jobs. It contains the totals and one line per job. */
export function jobsFrame(
  jobs: readonly JobSummary[],
  whose: string,
  view: TopView,
  notes: FrameNotes,
  terminal: Terminal,
  options: { readonly withUsers: boolean; readonly now: number },
): TopFrame {
  const head = [clip(sumLine(jobs, whose), roomOf(terminal))];
  if (jobs.length === 0) {
    return { lines: framed(head, [], JOB_ORDERINGS, view, notes, terminal), view: { ...view, offset: 0 } };
  }
  // The view shows only the first reason for waiting. `tony-ts list` shows all reasons.
  const waits = jobs.find(({ waiting }) => waiting !== '');
  const silent = jobs.find(({ masterSilentMs }) => masterSilentMs !== null);
  if (silent !== undefined) {
    head.push(...reasons(`${silent.id}: ${silenceText(silent.masterSilentMs ?? 0)}`, terminal));
  }
  if (waits !== undefined) {
    head.push(...reasons(`${waits.id}: ${waits.waiting}`, terminal));
  }
  const rows = ordered(jobs, JOB_ORDERINGS, view);
  return tableFrame(head, rows, (some) => fittedTable(some, progressColumns(options), terminal), JOB_ORDERINGS, view, notes, terminal);
}

function tableFrame<Row>(
  head: readonly string[],
  rows: readonly Row[],
  table: (rows: readonly Row[]) => readonly string[],
  orderings: readonly Ordering<Row>[],
  view: TopView,
  notes: FrameNotes,
  terminal: Terminal,
): TopFrame {
  const [title = '', ...lines] = table(rows);
  const below = notes.notice === '' ? 1 : 2;
  const room = Math.max(1, terminal.rows - head.length - 1 - below);
  const offset = terminal.live ? Math.max(0, Math.min(view.offset, lines.length - room)) : 0;
  const shown = terminal.live ? lines.slice(offset, offset + room) : lines;
  return { lines: framed([...head, title], shown, orderings, view, notes, terminal), view: { ...view, offset } };
}

function framed<Row>(
  head: readonly string[],
  rows: readonly string[],
  orderings: readonly Ordering<Row>[],
  { order, reversed }: TopView,
  { notice, intervalMs }: FrameNotes,
  terminal: Terminal,
): string[] {
  const width = roomOf(terminal);
  const notices = notice === '' ? [] : [terminal.paint('yellow', clip(oneLine(notice), width))];
  if (!terminal.live) {
    return [...head, ...rows, ...notices];
  }
  const by = `${orderings[order]?.name ?? ''}${reversed ? ', reversed' : ''}`;
  const keys = `q quit  s order: ${by}  r reverse  up/down scroll  every ${formatDuration(intervalMs)}`;
  const foot = [...notices, terminal.paint('dim', clip(keys, width))];
  const all = [...head, ...rows].slice(0, Math.max(0, terminal.rows - foot.length));
  const empty = Array.from({ length: Math.max(0, terminal.rows - foot.length - all.length) }, () => '');
  return [...all, ...empty, ...foot];
}

/** Returns the totals, for example `3 jobs of yours, 1 of them waiting: 8 tasks, 24 GiB, 12 vcores, 4 GPUs`. */
function sumLine(jobs: readonly JobSummary[], whose: string): string {
  if (jobs.length === 0) {
    return `no running jobs ${whose}`;
  }
  const sum = (amount: (job: JobSummary) => number): number => jobs.reduce((all, job) => all + amount(job), 0);
  const waiting = jobs.filter(({ phase }) => phase === 'ACCEPTED' || phase === 'WAITING').length;
  const memory = sum(({ used }) => used['memory-mb'] ?? 0);
  const gpus = sum(({ used }) => used[GPUS] ?? 0);
  const vcores = sum(({ used }) => used.vcores ?? 0);
  const facts = [
    counted(
      sum(({ job, runningContainers }) => job?.tasksRunning ?? Math.max(0, runningContainers - 1)),
      'task',
    ),
    memory > 0 ? formatMemory(memory) : '',
    vcores > 0 ? counted(vcores, 'vcore') : '',
    gpus > 0 ? counted(gpus, 'GPU') : '',
  ].filter((fact) => fact !== '');
  const count = counted(jobs.length, 'job');
  return `${count} ${whose}${waiting > 0 ? `, ${waiting} of them waiting` : ''}: ${facts.join(', ')}`;
}

function reasons(text: string, terminal: Terminal): string[] {
  return wrap(oneLine(text), roomOf(terminal) - 2, 3).map((line) => terminal.paint('yellow', `  ${line}`));
}

function roomOf(terminal: Terminal): number {
  return Math.max(20, terminal.columns - 1);
}
