import { jobDurationText } from '../../../conf/status/job-duration.ts';
import type { JobInfo } from '../../../conf/status/job-info.ts';
import { jobMessage } from '../../../conf/status/job-message.ts';
import { orphanTexts } from '../../../conf/status/orphaned-containers.ts';
import { signalOf } from '../../../conf/status/program-signal.ts';
import {
  type ElasticStatus,
  gpuUtilization,
  restartsOf,
  type TaskState,
  type TaskStatus,
  taskStateText,
} from '../../../conf/status/status.ts';
import { withoutProfile } from '../../../conf/status/step-profile.ts';
import { formatNumber } from '../../../conf/values/quantities.ts';
import { formatMemory } from '../../../conf/values/units.ts';
import { type FittedColumn, fittedTable } from '../../terminal/fitted-table.ts';
import { clip, oneLine, type Style, type Terminal, wrap } from '../../terminal/terminal.ts';

export const TASK_COLUMNS: readonly FittedColumn<TaskStatus>[] = [
  { title: 'TASK', cell: (task) => `${task.role}:${task.index}`, least: 8, keep: 9 },
  { title: 'STATE', cell: stateText, style: ({ state }) => STATE_STYLE[state], least: 9, keep: 8 },
  { title: 'NODE', cell: (task, tasks) => nodeName(task.node, tasks), least: 8, keep: 4.2 },
  { title: 'GEN', cell: (task) => String(task.generation), align: 'right', least: 3, keep: 3 },
  {
    title: 'RESTARTS',
    cell: (task) => String(restartsOf(task)),
    align: 'right',
    keep: 1,
    when: (tasks) => tasks.some((task) => restartsOf(task) > 0),
  },
  { title: 'STEP', cell: (task) => (task.step === 0 ? '-' : String(task.step)), align: 'right', least: 4, keep: 7 },
  { title: 'MEMORY', cell: memoryText, align: 'right', least: 6, keep: 6 },
  { title: 'CPU', cell: (task) => (task.usage === null ? '-' : task.usage.cpuCores.toFixed(1)), align: 'right', least: 3, keep: 5 },
  { title: 'GPU', cell: gpuText, align: 'right', keep: 4.5, when: (tasks) => tasks.some(({ usage }) => (usage?.gpus.length ?? 0) > 0) },
  { title: 'METRICS', cell: (task) => metricsText(task.metrics), least: 10, keep: 4 },
];
/** Enough for a reason with its advice on 80 columns. */
const MESSAGE_LINES = 8;
/** Maximum number of lines about orphaned containers, for one sentence (`each`) and in total (`all`). */
const ORPHAN_LINES = { each: 2, all: 4 };

export const STATE_STYLE: Readonly<Record<TaskState, Style>> = {
  requested: 'dim',
  launching: 'dim',
  registered: 'cyan',
  running: 'cyan',
  succeeded: 'green',
  failed: 'red',
  lost: 'red',
  stopped: 'dim',
};

/** Returns a line for the job and a line for each task. If the terminal is too small, the last line says how many tasks are omitted. */
export function jobTable(status: JobInfo, terminal: Terminal, now: number): string[] {
  const width = Math.max(20, terminal.columns - 1);
  const head = jobLines(status, terminal, now, width);
  const room = Math.max(3, terminal.rows - head.length - 3);
  const shown = status.tasks.length <= room ? status.tasks : mostUrgent(status.tasks, room - 1);
  const lines = fittedTable(shown, TASK_COLUMNS, terminal);
  const hidden = status.tasks.length - shown.length;
  return [...head, ...lines, ...(hidden > 0 ? [terminal.paint('dim', clip(`and ${hidden} more tasks`, width))] : [])];
}

/** Returns lines with the job's progress, the reason why it is waiting, and its orphaned containers whose programs may still be running. */
export function jobLines(status: JobInfo, terminal: Terminal, now: number, width: number): string[] {
  const facts = [
    status.step > 0 ? `step ${status.step}${percent(status.progress ?? 0)}` : '',
    metricsText(withoutProfile(status.metrics)),
    status.elastic ? elasticText(status.elastic) : '',
    status.generations > 1 ? `generation ${status.generations}` : '',
    status.checkpointStep > 0 ? `checkpoint ${status.checkpointStep}` : '',
    jobDurationText(status, now),
  ].filter((fact) => fact !== '');
  const text = clip(`${oneLine(status.name)}  ${status.state}  ${facts.join('  ')}`, width);
  const orphans = orphanTexts(status, now).flatMap((sentence) => wrap(oneLine(sentence), width - 2, ORPHAN_LINES.each));
  const below = [...wrap(oneLine(jobMessage(status)), width - 2, MESSAGE_LINES), ...orphans.slice(0, ORPHAN_LINES.all)];
  return [
    text.replace(status.state, terminal.paint(jobStyle(status.state), status.state)),
    ...below.map((line) => terminal.paint('yellow', `  ${line}`)),
  ];
}

/** Formats a fraction between 0 and 1 as a percentage, such as ` (34 %)`. Returns '' for less than half a percent, and for 1. */
export function percent(share: number): string {
  return share >= 0.005 && share < 1 ? ` (${Math.round(share * 100)} %)` : '';
}

/** Formats the number of running tasks, such as `3 of 2..8 worker`. */
function elasticText({ role, running, min, max }: ElasticStatus): string {
  return `${running} of ${min}..${max} ${oneLine(role)}`;
}

export function jobStyle(state: JobInfo['state']): Style {
  switch (state) {
    case 'succeeded':
      return 'green';
    case 'failed':
    case 'killed':
      return 'red';
    case 'submitted':
    case 'waiting':
    case 'recovering':
      return 'yellow';
    case 'starting':
    case 'running':
      return 'cyan';
  }
}

/** Selects the tasks to show if not all tasks fit. Prefers failed tasks, then waiting tasks. */
function mostUrgent(tasks: readonly TaskStatus[], room: number): TaskStatus[] {
  const chosen = tasks.toSorted((a, b) => urgency(a.state) - urgency(b.state)).slice(0, room);
  return tasks.filter((task) => chosen.includes(task));
}

/** Returns the sort key of a task state. More urgent states have lower keys. */
export function urgency(state: TaskState): number {
  switch (state) {
    case 'failed':
    case 'lost':
      return 0;
    case 'requested':
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

export function stateText(task: TaskStatus): string {
  if (task.state === 'failed' && task.exit !== null) {
    const signal = signalOf(task.exit);
    const { code } = task.exit;
    return code === null ? `failed ${oneLine(signal ?? 'by a signal')}` : `failed ${code}${signal === null ? '' : ` ${signal}`}`;
  }
  return task.usage?.stopped === true ? 'suspended' : oneLine(taskStateText(task));
}

/** Returns the mean utilisation of the task's GPUs, and the memory that they use. */
export function gpuText({ usage }: TaskStatus): string {
  const busy = usage && gpuUtilization(usage);
  if (usage === null || busy === null) {
    return '-';
  }
  const held = usage.gpus.reduce((sum, { memoryUsedBytes }) => sum + memoryUsedBytes, 0);
  return `${Math.round(100 * busy)}% ${formatMemory(Math.round(held / (1 << 20)))}`;
}

export function memoryText(task: TaskStatus): string {
  return task.usage === null ? '-' : formatMemory(Math.round(task.usage.memoryBytes / (1 << 20)));
}

export function metricsText(metrics: Readonly<Record<string, number>>): string {
  return Object.entries(metrics)
    .map(([name, value]) => `${oneLine(name)} ${formatNumber(value)}`)
    .join('  ');
}

/** Returns a node's host name without its domain. */
export function hostOf(node: string | null): string {
  if (node === null) {
    return '-';
  }
  const host = node.replace(/:\d+$/, '');
  return /^[\d.]+$|:/.test(host) ? host : (host.split('.')[0] ?? host);
}

/** Returns a node's host name, with the port if several NodeManagers run on the host. */
export function nodeName(node: string | null, rows: readonly { readonly node: string | null }[]): string {
  const host = hostOf(node);
  const isShared = node !== null && rows.some((row) => row.node !== node && row.node?.startsWith(host) && hostOf(row.node) === host);
  return isShared ? `${host}${/:\d+$/.exec(node)?.[0] ?? ''}` : host;
}
