import { formatNumber } from '../conf/quantities.ts';
import type { ElasticStatus, JobStatus, TaskState, TaskStatus } from '../conf/status.ts';
import { formatDuration, formatMemory } from '../conf/units.ts';
import { clip, harmless, type Style, type Terminal, wrap } from './terminal.ts';

interface Column {
  readonly title: string;
  readonly cell: (task: TaskStatus) => string;
  readonly align: 'left' | 'right';
  /** A column that does not fit is cut down to this, and dropped when even that is too wide; lower `keep` goes first. */
  readonly least: number;
  readonly keep: number;
}

const COLUMNS: readonly Column[] = [
  { title: 'TASK', cell: (task) => `${task.role}:${task.index}`, align: 'left', least: 8, keep: 9 },
  { title: 'STATE', cell: (task) => stateText(task), align: 'left', least: 9, keep: 8 },
  { title: 'NODE', cell: (task) => hostOf(task.node), align: 'left', least: 8, keep: 2 },
  { title: 'GEN', cell: (task) => String(task.generation), align: 'right', least: 3, keep: 3 },
  { title: 'RESTARTS', cell: (task) => String(Math.max(0, task.attempts - 1)), align: 'right', least: 8, keep: 1 },
  { title: 'STEP', cell: (task) => (task.step === 0 ? '-' : String(task.step)), align: 'right', least: 4, keep: 7 },
  { title: 'MEMORY', cell: memoryText, align: 'right', least: 6, keep: 6 },
  { title: 'CPU', cell: (task) => (task.usage === null ? '-' : task.usage.cpuCores.toFixed(1)), align: 'right', least: 3, keep: 5 },
  { title: 'METRICS', cell: (task) => metricsText(task.metrics), align: 'left', least: 10, keep: 4 },
];
const GAP = 2;
const MESSAGE_LINES = 3;

const STATE_STYLE: Readonly<Record<TaskState, Style>> = {
  requested: 'dim',
  allocated: 'dim',
  launching: 'dim',
  registered: 'cyan',
  running: 'cyan',
  succeeded: 'green',
  failed: 'red',
  lost: 'red',
  stopped: 'dim',
};

/** The job's line and a line per task, none wider than the terminal; at most as many as leave room for a prompt. */
export function jobTable(status: JobStatus, terminal: Terminal, now: number): string[] {
  const width = Math.max(20, terminal.columns - 1);
  const head = jobLines(status, terminal, now, width);
  const room = Math.max(3, terminal.rows - head.length - 3);
  const shown = status.tasks.length <= room ? status.tasks : mostTelling(status.tasks, room - 1);
  const lines = taskLines(shown, terminal, width);
  const hidden = status.tasks.length - shown.length;
  return [...head, ...lines, ...(hidden > 0 ? [terminal.paint('dim', clip(`and ${hidden} more tasks`, width))] : [])];
}

function jobLines(status: JobStatus, terminal: Terminal, now: number, width: number): string[] {
  const facts = [
    status.step > 0 ? `step ${status.step}` : '',
    metricsText(withoutProfile(status.metrics)),
    status.elastic ? elasticText(status.elastic) : '',
    status.generations > 1 ? `generation ${status.generations}` : '',
    status.checkpointStep > 0 ? `checkpoint ${status.checkpointStep}` : '',
    formatDuration(1000 * Math.round(((status.finishedAt ?? now) - status.startedAt) / 1000)),
  ].filter((fact) => fact !== '');
  const text = clip(`${oneLine(status.name)}  ${status.state}  ${facts.join('  ')}`, width);
  const message = wrap(oneLine(status.message), width - 2, MESSAGE_LINES).map((line) => terminal.paint('yellow', `  ${line}`));
  return [text.replace(status.state, terminal.paint(jobStyle(status.state), status.state)), ...message];
}

/** `3 of 2..8 worker` */
function elasticText({ role, running, least, most }: ElasticStatus): string {
  return `${running} of ${least}..${most} ${oneLine(role)}`;
}

export function jobStyle(state: JobStatus['state']): Style {
  switch (state) {
    case 'SUCCEEDED':
      return 'green';
    case 'FAILED':
    case 'KILLED':
      return 'red';
    case 'WAITING':
    case 'RECOVERING':
      return 'yellow';
    case 'STARTING':
    case 'RUNNING':
      return 'cyan';
  }
}

function taskLines(tasks: readonly TaskStatus[], terminal: Terminal, width: number): string[] {
  const columns = columnsWithin(tasks, width);
  const title = columns.map(({ column, width: wide }) => pad(column.title, wide, column.align)).join(' '.repeat(GAP));
  const rows = tasks.map((task) =>
    columns
      .map(({ column, width: wide }) => {
        const cell = pad(clip(column.cell(task), wide), wide, column.align);
        return column.title === 'STATE' ? terminal.paint(STATE_STYLE[task.state], cell) : cell;
      })
      .join(' '.repeat(GAP))
      .trimEnd(),
  );
  return [terminal.paint('dim', title.trimEnd()), ...rows];
}

/** Natural widths where they fit; then columns are cut down, and then dropped, the least needed first. */
function columnsWithin(tasks: readonly TaskStatus[], width: number): { column: Column; width: number }[] {
  const restarted = tasks.some((task) => task.attempts > 1);
  let columns = COLUMNS.filter((column) => restarted || column.title !== 'RESTARTS').map((column) => ({
    column,
    width: Math.max(column.title.length, ...tasks.map((task) => column.cell(task).length)),
  }));
  const excess = (): number => columns.reduce((sum, { width: wide }) => sum + wide + GAP, -GAP) - width;
  for (const expendable of COLUMNS.toSorted((a, b) => a.keep - b.keep)) {
    const over = excess();
    if (over <= 0) break;
    columns = columns.map((entry) =>
      entry.column === expendable ? { ...entry, width: Math.max(Math.min(entry.width, entry.column.least), entry.width - over) } : entry,
    );
  }
  for (const expendable of COLUMNS.toSorted((a, b) => a.keep - b.keep)) {
    if (excess() <= 0) break;
    columns = columns.filter(({ column }) => column !== expendable);
  }
  return columns;
}

/** Those that have failed or wait come before those that run well. */
function mostTelling(tasks: readonly TaskStatus[], room: number): TaskStatus[] {
  const chosen = tasks.toSorted((a, b) => urgency(a.state) - urgency(b.state)).slice(0, room);
  return tasks.filter((task) => chosen.includes(task));
}

function urgency(state: TaskState): number {
  switch (state) {
    case 'failed':
    case 'lost':
      return 0;
    case 'requested':
    case 'allocated':
    case 'launching':
      return 1;
    case 'registered':
    case 'running':
      return 2;
    case 'succeeded':
    case 'stopped':
      return 3;
  }
}

function stateText(task: TaskStatus): string {
  if (task.state === 'failed' && task.exitCode !== null) return `failed ${task.exitCode}`;
  return task.usage?.stopped === true ? 'suspended' : task.state;
}

function memoryText(task: TaskStatus): string {
  return task.usage === null ? '-' : formatMemory(Math.round(task.usage.rssBytes / (1 << 20)));
}

export function metricsText(metrics: Readonly<Record<string, number>>): string {
  return Object.entries(metrics)
    .map(([name, value]) => `${oneLine(name)} ${formatNumber(value)}`)
    .join('  ');
}

/** Where the time of a training's steps goes is for those who ask: at the end of a job, in its pages and in `--output json`. */
export function withoutProfile(metrics: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(metrics).filter(([name]) => !name.startsWith('profile/')));
}

/** Host names without their domain, which is the same for all. */
function hostOf(node: string | null): string {
  if (node === null) return '-';
  const host = node.replace(/:\d+$/, '');
  return /^[\d.]+$|:/.test(host) ? host : (host.split('.')[0] ?? host);
}

function pad(text: string, width: number, align: 'left' | 'right'): string {
  return align === 'left' ? text.padEnd(width) : text.padStart(width);
}

export function oneLine(text: string): string {
  return harmless(text).replace(/\s+/g, ' ').trim();
}
