import { jobDurationText } from '../../../conf/status/job-duration.ts';
import { withoutProfile } from '../../../conf/status/step-profile.ts';
import { formatMemory } from '../../../conf/values/units.ts';
import { silenceText } from '../../cluster/master-silence.ts';
import type { JobSummary } from '../../listing/job-lister.ts';
import { type FittedColumn, fittedTable } from '../../terminal/fitted-table.ts';
import { oneLine, type Style, type Terminal, wrap } from '../../terminal/terminal.ts';
import { jobStyle, metricsText, percent } from './job-table.ts';

const INDENT = '    ';
const REASON_LINES = 2;
const GPUS = 'yarn.io/gpu';

/**
 * Returns a line for each job, clipped to the terminal width. A second line explains why a job is waiting, or says that its
 * ApplicationMaster does not respond.
 */
export function jobListLines(
  jobs: readonly JobSummary[],
  terminal: Terminal,
  options: { readonly withUsers: boolean; readonly now: number },
): string[] {
  const [title = '', ...rows] = fittedTable(jobs, listColumns(options), terminal);
  return [title, ...jobs.flatMap((job, at) => [rows[at] ?? '', ...reasonLines(job, terminal)])];
}

function reasonLines({ waiting, masterSilentMs }: JobSummary, terminal: Terminal): string[] {
  const width = Math.max(20, terminal.columns - 1) - INDENT.length;
  return wrap(oneLine(masterSilentMs === null ? waiting : silenceText(masterSilentMs)), width, REASON_LINES).map((line) =>
    terminal.paint('yellow', `${INDENT}${line}`),
  );
}

function listColumns({ withUsers, now }: { readonly withUsers: boolean; readonly now: number }): FittedColumn<JobSummary>[] {
  return [
    { title: 'JOB', cell: ({ id }) => id, keep: 9 },
    ...(withUsers ? [{ title: 'USER', cell: ({ user }: JobSummary) => user, least: 8, keep: 5 }] : []),
    { title: 'NAME', cell: ({ name }) => oneLine(name) || '-', least: 10, keep: 6 },
    { title: 'QUEUE', cell: ({ queue }) => queue.replace(/^root\./, '') || '-', least: 5, keep: 2 },
    { title: 'STATE', cell: ({ phase }) => phase, style: styleOf, keep: 8 },
    { title: 'TOOK', cell: (job) => tookText(job, now), align: 'right', keep: 7 },
    { title: 'TASKS', cell: tasksText, align: 'right', keep: 4 },
    {
      title: 'STEP',
      cell: ({ job, progress }) => (job === null || job.step === 0 ? '-' : `${job.step}${percent(progress / 100)}`),
      align: 'right',
      least: 4,
      keep: 3,
      when: some(({ job }) => (job?.step ?? 0) > 0),
    },
    { title: 'MEMORY', cell: ({ used }) => memoryText(used['memory-mb'] ?? 0), align: 'right', keep: 1 },
    {
      title: 'GPUS',
      cell: ({ used }) => String(used[GPUS] ?? 0),
      align: 'right',
      keep: 1.5,
      when: some(({ used }) => (used[GPUS] ?? 0) > 0),
    },
  ];
}

/** Returns the `tony-ts top` columns: the columns of the job list, and the metrics. */
export function progressColumns(options: { readonly withUsers: boolean; readonly now: number }): FittedColumn<JobSummary>[] {
  return [
    ...listColumns(options),
    {
      title: 'METRICS',
      cell: ({ job }) => metricsText(withoutProfile(job?.metrics ?? {})) || '-',
      least: 11,
      keep: 3.5,
      when: some(({ job }) => Object.keys(job?.metrics ?? {}).length > 0),
    },
  ];
}

function some(holds: (job: JobSummary) => boolean): (jobs: readonly JobSummary[]) => boolean {
  return (jobs) => jobs.some(holds);
}

function tookText({ startedAt, finishedAt }: JobSummary, now: number): string {
  // YARN's start time is the time of the submission. If the job's view ACL denies access, YARN reports 0 as the start time.
  return startedAt === 0 ? '-' : jobDurationText({ submittedAt: startedAt, finishedAt }, now);
}

function tasksText({ job, runningContainers }: JobSummary): string {
  if (job !== null) {
    return `${job.tasksRunning}/${job.tasks}`;
  }
  return runningContainers < 1 ? '-' : String(runningContainers - 1);
}

function memoryText(mebibytes: number): string {
  return mebibytes === 0 ? '-' : formatMemory(mebibytes);
}

function styleOf({ phase }: JobSummary): Style {
  return phase === 'SUBMITTED' || phase === 'ACCEPTED' ? 'yellow' : jobStyle(phase);
}
