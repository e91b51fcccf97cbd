import type { ReadStream, WriteStream } from 'node:tty';
import { isOver, isReported, type JobInfo, type ListedJob } from '../../conf/status/job-info.ts';
import { waitingText } from '../../conf/status/job-message.ts';
import type { TaskStatus } from '../../conf/status/status.ts';
import { counted } from '../../conf/values/quantities.ts';
import { formatDuration, formatMemory } from '../../conf/values/units.ts';
import { pause } from '../../platform/async/backoff.ts';
import { untilAborted } from '../../platform/async/until-aborted.ts';
import { silenceText } from '../cluster/master-silence.ts';
import { OutageTolerance } from '../cluster/outage-tolerance.ts';
import type { JobConnection } from '../connections/job-connection.ts';
import { jobLines, TASK_COLUMNS, urgency } from '../output/lines/job-table.ts';
import { progressColumns } from '../output/lines/list-lines.ts';
import { statusLines } from '../output/lines/status-lines.ts';
import { fittedTable } from '../terminal/fitted-table.ts';
import { FullScreen } from '../terminal/full-screen.ts';
import { INTERRUPTED } from '../terminal/interrupts.ts';
import { clip, oneLine, printable, type Terminal, terminalOf, wrap } from '../terminal/terminal.ts';
import { afterKey, FIRST_VIEW, most, type Ordering, ordered, type TopView } from './top-view.ts';

interface TopFrame {
  readonly lines: readonly string[];
  /** View with a scroll offset that does not exceed the number of rows. */
  readonly view: TopView;
}

interface FrameNotes {
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
  { name: 'memory', compare: most(({ usage }) => usage?.memoryBytes) },
  { name: 'gpu', compare: most(({ usage }) => usage?.gpus.reduce((sum, { utilization }) => sum + utilization, 0)) },
];

export const JOB_ORDERINGS: readonly Ordering<ListedJob>[] = [
  { name: 'newest', compare: () => 0 },
  {
    name: 'state',
    compare: (a, b) =>
      Number(waitingText(a) === '') - Number(waitingText(b) === '') || (a.state < b.state ? -1 : a.state > b.state ? 1 : 0),
  },
  { name: 'memory', compare: most(({ yarn }) => yarn?.used['memory-mb']) },
  { name: 'gpus', compare: most(({ yarn }) => yarn?.used[GPUS]) },
  { name: 'tasks', compare: most(({ tasksRunning, yarn }) => tasksRunning ?? yarn?.runningContainers) },
  { name: 'step', compare: most(({ step }) => step) },
];

/** Returns the view of one job. It contains a line about the job, the reason if the job is waiting, and as many tasks as fit. */
export function jobFrame(job: JobInfo, view: TopView, notes: FrameNotes, terminal: Terminal, now: number): TopFrame {
  const width = roomOf(terminal);
  const { id, state, message, masterSilentMs } = job;
  const silence = masterSilentMs === null ? [] : reasons(silenceText(masterSilentMs), terminal);
  if (!isReported(job)) {
    const lines = [clip(`${id}  ${state}`, width), ...reasons(message, terminal), ...silence];
    return { lines: framed(lines, [], TASK_ORDERINGS, view, notes, terminal), view: { ...view, offset: 0 } };
  }
  const about = [clip(terminal.live ? id : '', width), ...jobLines(job, terminal, now, width)];
  const head = [...about, ...silence].filter((line) => line !== '');
  const tasks = ordered(job.tasks, TASK_ORDERINGS, view);
  return tableFrame(head, tasks, (rows) => fittedTable(rows, TASK_COLUMNS, terminal), TASK_ORDERINGS, view, notes, terminal);
}

/** Returns the view of several jobs. It contains the totals and one line per job. */
export function jobsFrame(
  jobs: readonly ListedJob[],
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
  const waits = jobs.find((job) => waitingText(job) !== '');
  const silent = jobs.find(({ masterSilentMs }) => masterSilentMs !== null);
  if (silent !== undefined) {
    head.push(...reasons(`${silent.id}: ${silenceText(silent.masterSilentMs ?? 0)}`, terminal));
  }
  if (waits !== undefined) {
    head.push(...reasons(`${waits.id}: ${waitingText(waits)}`, terminal));
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
function sumLine(jobs: readonly ListedJob[], whose: string): string {
  if (jobs.length === 0) {
    return `no running jobs ${whose}`;
  }
  const sum = (amount: (job: ListedJob) => number): number => jobs.reduce((all, job) => all + amount(job), 0);
  const waiting = jobs.filter(({ state }) => state === 'waiting').length;
  const memory = sum(({ yarn }) => yarn?.used['memory-mb'] ?? 0);
  const gpus = sum(({ yarn }) => yarn?.used[GPUS] ?? 0);
  const vcores = sum(({ yarn }) => yarn?.used.vcores ?? 0);
  const facts = [
    counted(
      sum(({ tasksRunning, yarn }) => tasksRunning ?? Math.max(0, (yarn?.runningContainers ?? 0) - 1)),
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

interface Watched<T> {
  readonly look: () => Promise<T>;
  readonly isOver: (seen: T) => boolean;
  readonly frame: (seen: T, view: TopView, notes: FrameNotes) => TopFrame;
  readonly orders: number;
}

interface WatchOptions {
  readonly input: ReadStream | null;
  readonly output: WriteStream;
  readonly intervalMs: number;
}

/** Result of `watch`. `last` is the final observation, or null if the user quit. */
interface WatchEnd<T> {
  readonly last: T | null;
  readonly exitCode: number;
}

class Left extends Error {
  readonly exitCode: number;
  constructor(exitCode: number) {
    super('left');
    this.exitCode = exitCode;
  }
}

/** Redraws the screen with each observation until an observation is final or the user quits. Then restores the terminal. */
async function watch<T>(watched: Watched<T>, { input, output, intervalMs }: WatchOptions): Promise<WatchEnd<T>> {
  const away = new AbortController();
  const { signal } = away;
  const outage = new OutageTolerance();
  let view = FIRST_VIEW;
  let notice = '';
  let seen: { readonly value: T } | null = null;
  const draw = (): void => {
    if (seen === null) {
      return;
    }
    const frame = watched.frame(seen.value, view, { notice, intervalMs });
    view = frame.view;
    screen.draw(frame.lines);
  };
  const typed = (key: string): void => {
    const next = afterKey(view, key, watched.orders);
    if (next === 'quit') {
      away.abort(new Left(0));
    } else {
      view = next;
      draw();
    }
  };
  const interrupted = (): void => away.abort(new Left(INTERRUPTED));
  for (const name of ENDING) {
    process.on(name, interrupted);
  }
  const screen = new FullScreen({ input, output, onKey: typed, onResize: draw });
  try {
    screen.draw(['loading ...']);
    for (;;) {
      try {
        seen = { value: await untilAborted(watched.look(), signal) };
        outage.answered();
        notice = '';
      } catch (error) {
        if (signal.aborted) {
          throw signal.reason;
        }
        notice = outage.missed(error) ?? notice;
      }
      draw();
      if (seen !== null && watched.isOver(seen.value)) {
        return { last: seen.value, exitCode: 0 };
      }
      await pause(intervalMs, signal);
      signal.throwIfAborted();
    }
  } catch (error) {
    if (error instanceof Left) {
      return { last: null, exitCode: error.exitCode };
    }
    throw error;
  } finally {
    screen.close();
    for (const name of ENDING) {
      process.off(name, interrupted);
    }
  }
}

const ENDING = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

export interface TopOptions {
  readonly input: ReadStream;
  readonly output: WriteStream;
  readonly intervalMs: number;
}

const QUIET = { notice: '', intervalMs: 0 };

/**
 * Shows one job until it ends, then prints the job's report. If the output is not a terminal, prints the job's state once. Returns the exit
 * code.
 */
export async function topJob(connection: JobConnection, { input, output, intervalMs }: TopOptions): Promise<number> {
  const terminal = terminalOf(output);
  const show = (lines: readonly string[]): void => void output.write(lines.map((line) => `${printable(line)}\n`).join(''));
  const ended = (job: JobInfo): void => show(statusLines(job, terminal, Date.now()));
  const first = await connection.observe();
  if (isOver(first)) {
    ended(first);
    return 0;
  }
  if (!terminal.live) {
    show(jobFrame(first, FIRST_VIEW, QUIET, whole(terminal), Date.now()).lines);
    return 0;
  }
  const { last, exitCode } = await watch<JobInfo>(
    {
      look: () => connection.observe(),
      isOver,
      frame: (seen, view, notes) => jobFrame(seen, view, notes, terminal, Date.now()),
      orders: TASK_ORDERINGS.length,
    },
    { input: input.isTTY ? input : null, output, intervalMs },
  );
  if (last !== null) {
    ended(last);
  }
  return exitCode;
}

/** Shows the jobs that `list` returns, until the user quits. */
export async function topJobs(
  list: () => Promise<readonly ListedJob[]>,
  { input, output, intervalMs }: TopOptions,
  { whose, withUsers }: { readonly whose: string; readonly withUsers: boolean },
): Promise<number> {
  const terminal = terminalOf(output);
  if (!terminal.live) {
    const { lines } = jobsFrame(await list(), whose, FIRST_VIEW, QUIET, whole(terminal), { withUsers, now: Date.now() });
    output.write(lines.map((line) => `${printable(line)}\n`).join(''));
    return 0;
  }
  const { exitCode } = await watch<readonly ListedJob[]>(
    {
      look: list,
      isOver: () => false,
      frame: (seen, view, notes) => jobsFrame(seen, whose, view, notes, terminal, { withUsers, now: Date.now() }),
      orders: JOB_ORDERINGS.length,
    },
    { input: input.isTTY ? input : null, output, intervalMs },
  );
  return exitCode;
}

/** Returns a terminal without a height limit, for output that is printed only once. */
function whole(terminal: Terminal): Terminal {
  return { live: false, columns: terminal.columns, rows: Number.POSITIVE_INFINITY, paint: (style, text) => terminal.paint(style, text) };
}
