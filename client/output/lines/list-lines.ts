import { jobDurationText } from '../../../conf/status/job-duration.ts';
import type { ListedJob } from '../../../conf/status/job-info.ts';
import { waitingText } from '../../../conf/status/job-message.ts';
import { withoutProfile } from '../../../conf/status/step-profile.ts';
import { formatMemory } from '../../../conf/values/units.ts';
import { silenceText } from '../../cluster/master-silence.ts';
import { type FittedColumn, fittedTable } from '../../terminal/fitted-table.ts';
import { oneLine, type Terminal, wrap } from '../../terminal/terminal.ts';
import { jobStyle, metricsText, percent } from './job-table.ts';

const INDENT = '    ';
const REASON_LINES = 2;
const GPUS = 'yarn.io/gpu';

/**
 * Returns a line for each job, clipped to the terminal width. A second line explains why a job is waiting, or says that its
 * ApplicationMaster does not respond.
 */
export function jobListLines(
  jobs: readonly ListedJob[],
  terminal: Terminal,
  options: { readonly withUsers: boolean; readonly now: number },
): string[] {
  const [title = '', ...rows] = fittedTable(jobs, listColumns(options), terminal);
  return [title, ...jobs.flatMap((job, at) => [rows[at] ?? '', ...reasonLines(job, terminal)])];
}

function reasonLines(job: ListedJob, terminal: Terminal): string[] {
  const width = Math.max(20, terminal.columns - 1) - INDENT.length;
  const text = job.masterSilentMs === null ? waitingText(job) : silenceText(job.masterSilentMs);
  return wrap(oneLine(text), width, REASON_LINES).map((line) => terminal.paint('yellow', `${INDENT}${line}`));
}

function listColumns({ withUsers, now }: { readonly withUsers: boolean; readonly now: number }): FittedColumn<ListedJob>[] {
  return [
    { title: 'JOB', cell: ({ id }) => id, keep: 9 },
    ...(withUsers ? [{ title: 'USER', cell: ({ user }: ListedJob) => user, least: 8, keep: 5 }] : []),
    { title: 'NAME', cell: ({ name }) => oneLine(name) || '-', least: 10, keep: 6 },
    { title: 'QUEUE', cell: ({ queue }) => queue || '-', least: 5, keep: 2 },
    { title: 'STATE', cell: ({ state }) => state, style: ({ state }) => jobStyle(state), keep: 8 },
    { title: 'TOOK', cell: (job) => jobDurationText(job, now), align: 'right', keep: 7 },
    { title: 'TASKS', cell: tasksText, align: 'right', keep: 4 },
    {
      title: 'STEP',
      cell: ({ step, progress }) => (step === 0 ? '-' : `${step}${percent(progress ?? 0)}`),
      align: 'right',
      least: 4,
      keep: 3,
      when: some(({ step }) => step > 0),
    },
    { title: 'MEMORY', cell: ({ yarn }) => memoryText(yarn?.used['memory-mb'] ?? 0), align: 'right', keep: 1 },
    {
      title: 'GPUS',
      cell: ({ yarn }) => String(yarn?.used[GPUS] ?? 0),
      align: 'right',
      keep: 1.5,
      when: some(({ yarn }) => (yarn?.used[GPUS] ?? 0) > 0),
    },
  ];
}

/** Returns the `tony-ts top` columns: the columns of the job list, and the metrics. */
export function progressColumns(options: { readonly withUsers: boolean; readonly now: number }): FittedColumn<ListedJob>[] {
  return [
    ...listColumns(options),
    {
      title: 'METRICS',
      cell: ({ metrics }) => metricsText(withoutProfile(metrics)) || '-',
      least: 11,
      keep: 3.5,
      when: some(({ metrics }) => Object.keys(metrics).length > 0),
    },
  ];
}

function some(holds: (job: ListedJob) => boolean): (jobs: readonly ListedJob[]) => boolean {
  return (jobs) => jobs.some(holds);
}

function tasksText({ tasksRunning, tasksTotal, yarn }: ListedJob): string {
  if (tasksTotal !== null) {
    return `${tasksRunning}/${tasksTotal}`;
  }
  return yarn === null || yarn.runningContainers < 1 ? '-' : String(yarn.runningContainers - 1);
}

function memoryText(mebibytes: number): string {
  return mebibytes === 0 ? '-' : formatMemory(mebibytes);
}
