import { stringify } from 'yaml';
import type { Role } from '../../../conf/job.ts';
import { describeFailure, describeFirstFailure } from '../../../conf/status/event-text.ts';
import { jobDurationText } from '../../../conf/status/job-duration.ts';
import { jobMessage } from '../../../conf/status/job-message.ts';
import { orphanTexts } from '../../../conf/status/orphaned-containers.ts';
import { restartsOf } from '../../../conf/status/status.ts';
import { withoutProfile } from '../../../conf/status/step-profile.ts';
import { formatNumber } from '../../../conf/values/quantities.ts';
import { formatDuration, formatMemory } from '../../../conf/values/units.ts';
import type { DescribedCheckpoints, DescribedTask, JobDescription } from '../../connections/operations/describe-job.ts';
import { lostNodesText } from '../../connections/operations/lost-nodes.ts';
import { fullTime } from '../../terminal/clock.ts';
import { type FittedColumn, fittedTable } from '../../terminal/fitted-table.ts';
import { harmless, oneLine, type Terminal, wrap } from '../../terminal/terminal.ts';
import { failureLines } from './failure-lines.ts';
import { gpuText, jobStyle, memoryText, metricsText, nodeName, STATE_STYLE, stateText } from './job-table.ts';

const LABEL = 13;
const INDENT = '  ';
const TEXT_LINES = 12;
/** Maximum number of checkpoints to list. Older checkpoints are counted, but not listed. */
const STEPS_NAMED = 12;

/** Describes a job on one page, starting with its first failure. Wraps lines to the terminal width, except for URLs and YAML. */
export function descriptionLines(job: JobDescription, terminal: Terminal, now: number): string[] {
  return [
    ...failureSection(job, terminal),
    ...headSection(job, terminal, now),
    ...yarnSection(job, terminal),
    ...section('roles', job.roles.length === 0 ? [] : fittedTable(job.roles, ROLE_COLUMNS, narrower(terminal)), terminal),
    ...section('tasks', taskLines(job.tasks, terminal), terminal),
    ...section('containers', containerLines(job.tasks, terminal), terminal),
    ...section('checkpoints', job.checkpoints === null ? [] : checkpointLines(job.checkpoints, terminal), terminal),
    ...section('places', placeLines(job), terminal),
    ...section('configuration', configurationLines(job.configuration), terminal),
  ];
}

/** Describes the first task failure, or the cause of the job's failure if no task has failed. */
function failureSection({ failure, state, message }: JobDescription, terminal: Terminal): string[] {
  const hasFailed = state === 'failed';
  if (failure === null && !hasFailed) {
    return [];
  }
  const [diagnosis = '', ...rest] = message.trim().split('\n');
  const [sentence, lines] = failure === null ? [diagnosis, rest] : [describeFirstFailure(failure), failure.lines];
  const title = hasFailed ? 'first failure' : 'first failure (the job continued)';
  return [terminal.paint('red', title), ...indented(failureLines(sentence, lines, roomOf(terminal))), ''];
}

function headSection(job: JobDescription, terminal: Terminal, now: number): string[] {
  const { id, name, user, queue, state, createdAt, finishedAt, step, metrics, generations, notices, urls, unreadable } = job;
  const progress = [
    step > 0 ? `step ${step}` : '',
    metricsText(withoutProfile(metrics)),
    generations > 1 ? `generation ${generations}` : '',
  ].filter((part) => part !== '');
  const message = jobMessage(job);
  const took = jobDurationText(job, now);
  const ended = finishedAt === null ? ` (${took} ago)` : `, ended ${fullTime(finishedAt)}, took ${took}`;
  const painted = terminal.paint(jobStyle(state), state);
  return [
    terminal.paint('bold', id),
    ...fact('name', name, terminal),
    ...fact('state', state, terminal).map((line) => line.replace(state, painted)),
    // If the job failed, omit its message, because failureSection has already shown it.
    ...fact('', job.failure === null && state !== 'failed' ? message : (message.split('\n')[0] ?? ''), terminal),
    ...fact('user', user, terminal),
    ...fact('queue', queue, terminal),
    ...(createdAt === null ? [] : fact('submitted', `${fullTime(createdAt)}${ended}`, terminal)),
    ...fact('progress', progress.join('  '), terminal),
    ...(urls.pages === null ? [] : [address('pages', urls.pages)]),
    ...notices.flatMap((notice, at) => fact(at === 0 ? 'notices' : '', notice, terminal)),
    ...fact('unreadable', unreadable ?? '', terminal),
    ...fact('lost nodes', lostNodesText(job.lostNodes), terminal),
    ...orphanTexts(job, now).flatMap((text, at) => fact(at === 0 ? 'orphans' : '', text, terminal)),
  ];
}

function yarnSection({ yarn }: JobDescription, terminal: Terminal): string[] {
  if (yarn === null) {
    return [];
  }
  const { state, finalStatus, tags, trackingUrl, diagnostics, attempts = [], used, logAggregation } = yarn;
  const holds = Object.entries(used)
    .filter(([, amount]) => amount > 0)
    .map(([name, amount]) => (name === 'memory-mb' ? formatMemory(amount) : `${amount} ${name}`));
  const lines = [
    ...fact('state', finalStatus === 'UNDEFINED' ? state : `${state}, ${finalStatus}`, terminal),
    ...fact('tags', tags.join(', '), terminal),
    ...fact('holds', holds.join(', '), terminal),
    ...fact('logs', logAggregation === null || state === 'RUNNING' ? '' : `aggregated:  ${logAggregation}`, terminal),
    ...attempts.flatMap(({ number, state: phase, containerId, nodeHttp, diagnostics: why }) => [
      ...fact(
        `attempt ${number}`,
        [phase, containerId ?? '', nodeHttp === null ? '' : `on ${nodeHttp}`].filter(Boolean).join(' '),
        terminal,
      ),
      ...fact('', why, terminal),
    ]),
    ...(trackingUrl === '' || trackingUrl === 'N/A' ? [] : [address('tracking', trackingUrl)]),
    ...fact('diagnostics', diagnostics, terminal),
  ];
  return section('YARN', lines, terminal, false);
}

const ROLE_COLUMNS: readonly FittedColumn<Role>[] = [
  { title: 'ROLE', cell: ({ name }) => name, keep: 9 },
  { title: 'KIND', cell: ({ kind }) => kind, keep: 4, when: (roles) => roles.some(({ kind }) => kind !== 'gang') },
  {
    title: 'TASKS',
    cell: ({ instances, maxInstances }) => (maxInstances > instances ? `${instances}..${maxInstances}` : String(instances)),
    align: 'right',
    keep: 8,
  },
  { title: 'MEMORY', cell: ({ resources }) => formatMemory(resources.memoryMb), align: 'right', least: 7, keep: 7 },
  { title: 'VCORES', cell: ({ resources }) => String(resources.vcores), align: 'right', keep: 6 },
  {
    title: 'GPUS',
    cell: ({ resources }) => String(resources.gpus),
    align: 'right',
    keep: 5,
    when: (roles) => roles.some(({ resources }) => resources.gpus > 0),
  },
  {
    title: 'OTHER',
    cell: ({ resources }) =>
      Object.entries(resources.other)
        .map(([name, amount]) => `${amount} ${name}`)
        .join(', ') || '-',
    keep: 2,
    when: (roles) => roles.some(({ resources }) => Object.keys(resources.other).length > 0),
  },
  {
    title: 'LABEL',
    cell: ({ nodeLabel }) => nodeLabel ?? '-',
    keep: 3,
    when: (roles) => roles.some(({ nodeLabel }) => nodeLabel !== null),
  },
  { title: 'RESTARTS', cell: ({ restart }) => (restart.policy === 'never' ? 'never' : `up to ${restart.maxRestarts}`), keep: 4 },
  { title: 'COMMAND', cell: ({ command }) => oneLine(command), least: 12, keep: 1 },
];

const TASK_COLUMNS: readonly FittedColumn<DescribedTask>[] = [
  { title: 'TASK', cell: ({ role, index }) => `${role}:${index}`, least: 8, keep: 9 },
  { title: 'STATE', cell: stateText, style: ({ state }) => STATE_STYLE[state], least: 9, keep: 8 },
  { title: 'NODE', cell: ({ node }, tasks) => nodeName(node, tasks), least: 8, keep: 6.5 },
  { title: 'GEN', cell: ({ generation }) => String(generation), align: 'right', keep: 2.5 },
  { title: 'RESTARTS', cell: (task) => String(restartsOf(task)), align: 'right', keep: 2 },
  { title: 'FAILED', cell: ({ failures }) => String(failures), align: 'right', keep: 5 },
  {
    title: 'HEARD',
    cell: ({ silentMs }) => (silentMs === null ? '-' : `${durationText(silentMs)} ago`),
    align: 'right',
    least: 10,
    keep: 3.5,
    when: (tasks) => tasks.some(({ silentMs }) => silentMs !== null),
  },
  {
    title: 'STEP',
    cell: ({ step }) => (step === 0 ? '-' : String(step)),
    align: 'right',
    keep: 7,
    when: (tasks) => tasks.some(({ step }) => step > 0),
  },
  { title: 'MEMORY', cell: memoryText, align: 'right', least: 7, keep: 6, when: (tasks) => tasks.some(({ usage }) => usage !== null) },
  {
    title: 'CPU',
    cell: ({ usage }) => (usage === null ? '-' : usage.cpuCores.toFixed(1)),
    align: 'right',
    keep: 5.5,
    when: (tasks) => tasks.some(({ usage }) => usage !== null),
  },
  {
    title: 'GPU',
    cell: gpuText,
    align: 'right',
    least: 12,
    keep: 5.2,
    when: (tasks) => tasks.some(({ usage }) => (usage?.gpus.length ?? 0) > 0),
  },
];

/** Returns the task table. Additional lines below a failed task describe its failure. */
function taskLines(tasks: readonly DescribedTask[], terminal: Terminal): string[] {
  if (tasks.length === 0) {
    return [];
  }
  const [title = '', ...rows] = fittedTable(tasks, TASK_COLUMNS, narrower(terminal));
  const width = roomOf(terminal) - INDENT.length;
  return [
    title,
    ...tasks.flatMap(({ role, failure }, at) => [
      rows[at] ?? '',
      ...(failure === null ? [] : wrap(oneLine(describeFailure(failure, role)), width, 2).map((line) => `${INDENT}${line}`)),
    ]),
  ];
}

function containerLines(tasks: readonly DescribedTask[], terminal: Terminal): string[] {
  const rows = tasks.flatMap(({ role, index, containers }) =>
    containers.map(({ containerId, node }, at) => ({ task: `${role}:${index}`, attempt: at + 1, containerId, node })),
  );
  if (rows.length === 0) {
    return [];
  }
  const columns: FittedColumn<(typeof rows)[number]>[] = [
    { title: 'TASK', cell: ({ task }) => task, least: 8, keep: 4 },
    { title: 'NO.', cell: ({ attempt }) => String(attempt), align: 'right', keep: 1 },
    { title: 'CONTAINER', cell: ({ containerId }) => containerId, least: 46, keep: 3 },
    { title: 'NODE', cell: ({ node }) => node ?? '-', least: 8, keep: 2 },
  ];
  return fittedTable(rows, columns, narrower(terminal));
}

function checkpointLines({ latest, kept, best }: DescribedCheckpoints, terminal: Terminal): string[] {
  const named = kept?.slice(-STEPS_NAMED) ?? [];
  const more = (kept?.length ?? 0) - named.length;
  const keptText =
    kept === null ? 'cannot be listed' : kept.length === 0 ? 'none' : `${more > 0 ? `${more} older ones, ` : ''}${named.join(', ')}`;
  return [
    ...fact('latest', latest === 0 ? 'none' : `step ${latest}`, terminal, 0),
    ...fact('kept', keptText, terminal, 0),
    ...(best === null ? [] : fact('best', `step ${best.step} (${oneLine(best.metric)} ${formatNumber(best.value)})`, terminal, 0)),
  ];
}

function placeLines({ places }: JobDescription): string[] {
  return Object.entries(places).flatMap(([name, place]) => (place === null ? [] : [address(name, place, 0)]));
}

/** Returns the job's configuration without the paths of its staged files, which only `--output yaml` shows. */
function configurationLines(configuration: unknown): string[] {
  if (typeof configuration !== 'object' || configuration === null) {
    return [];
  }
  const job = 'job' in configuration ? configuration.job : configuration;
  return harmless(stringify(job, { lineWidth: 0 }))
    .trimEnd()
    .split('\n');
}

function section(title: string, lines: readonly string[], terminal: Terminal, indent = true): string[] {
  return lines.length === 0 ? [] : ['', terminal.paint('bold', title), ...(indent ? indented(lines) : lines)];
}

function fact(label: string, text: string, terminal: Terminal, depth = 1): string[] {
  const lead = INDENT.repeat(depth);
  const width = roomOf(terminal) - LABEL;
  const lines = wrap(oneLine(text), Math.max(20, width), TEXT_LINES);
  return lines.map((line, at) => `${lead}${(at === 0 ? label : '').padEnd(LABEL)}${line}`);
}

function address(label: string, uri: string, depth = 1): string {
  return `${INDENT.repeat(depth)}${label.padEnd(LABEL)}${oneLine(uri)}`;
}

function indented(lines: readonly string[]): string[] {
  return lines.map((line) => (line === '' ? '' : `${INDENT}${line}`));
}

function roomOf(terminal: Terminal): number {
  return Math.max(40, terminal.columns - 1) - INDENT.length;
}

/** Returns a copy of the terminal, with its width reduced by the indentation. */
function narrower(terminal: Terminal): Terminal {
  return {
    live: terminal.live,
    columns: terminal.columns - INDENT.length,
    rows: terminal.rows,
    paint: (style, text) => terminal.paint(style, text),
  };
}

function durationText(ms: number): string {
  return formatDuration(ms < 10_000 ? Math.max(0, ms) : 1000 * Math.round(ms / 1000));
}
