import { z } from 'zod';
import type { FrozenJob } from '../../conf/job.ts';
import type { FirstFailure, HistoryEntry, JobResult, JobStatus, TaskState, TaskStatus, Usage } from '../../conf/status.ts';

/*
 * How a job ended, from what it left. final.json says it all. Without one (YARN killed the job before it could write, its ApplicationMaster was
 * lost) it is put together from the events and from what the cluster still knows. Files may be cut short, damaged or of another version: what
 * can be read of them counts, and nothing in them is taken for more than a text to show.
 */

/** What the files of one job's history say. */
export interface JobRecord {
  readonly applicationId: string;
  /** The owner of the folder, whoever the files name. */
  readonly user: string;
  readonly frozen: FrozenJob | null;
  /** The text of final.json; empty when there is none. */
  readonly final: string;
  readonly entries: readonly HistoryEntry[];
}

/** What the cluster knows of a job. */
export interface ClusterWord {
  readonly name: string;
  readonly queue: string;
  /** ms since the epoch. */
  readonly startedAt: number;
  readonly finishedAt: number | null;
  /** Null while it runs. */
  readonly result: JobResult | null;
}

const MAXIMUM_TASKS = 100_000;
const text = z.string().catch('');
const number = z.number().catch(0);
const numbers = z.record(z.string(), z.number()).catch({});
const nullableText = z.string().nullable().catch(null);

const usage: z.ZodType<Usage | null> = z
  .object({
    rssBytes: number,
    cpuCores: number,
    gpus: z.array(z.object({ index: number, utilization: number, memoryUsedBytes: number, memoryTotalBytes: number })).catch([]),
    stopped: z.boolean().catch(false),
  })
  .nullable()
  .catch(null);

const task: z.ZodType<TaskStatus> = z.object({
  role: z.string(),
  index: z.int().nonnegative(),
  state: z
    .enum(['requested', 'allocated', 'launching', 'registered', 'running', 'succeeded', 'failed', 'lost', 'stopped'])
    .catch('stopped'),
  generation: number,
  attempts: number,
  failures: number,
  containerId: nullableText,
  node: nullableText,
  nodeHttp: nullableText,
  step: number,
  metrics: numbers,
  usage,
  silentMs: z.number().nullable().catch(null),
  exitCode: z.number().nullable().catch(null),
  failure: nullableText,
});

const failure: z.ZodType<FirstFailure | null> = z
  .object({ task: nullableText, text, lines: z.array(z.string()).catch([]) })
  .nullable()
  .catch(null);

const status: z.ZodType<JobStatus> = z.object({
  applicationId: z.string(),
  name: text,
  user: text,
  queue: text,
  state: z.enum(['SUCCEEDED', 'FAILED', 'KILLED']),
  message: text,
  masterAttempt: number,
  generations: number,
  startedAt: number,
  finishedAt: z.number().nullable().catch(null),
  step: number,
  metrics: numbers,
  checkpointStep: number,
  checkpointDir: text,
  summaryDir: text,
  notices: z.array(z.string()).catch([]),
  failure,
  tensorboard: z
    .object({ state: z.enum(['off', 'waiting', 'starting', 'ready', 'unavailable']), message: text })
    .catch({ state: 'off', message: '' }),
  elastic: z.object({ role: text, running: number, least: number, most: number }).nullable().catch(null),
  master: z.null().catch(null),
  tasks: z
    .array(z.unknown())
    .catch([])
    .transform((each) => each.slice(0, MAXIMUM_TASKS).flatMap((one) => task.safeParse(one).data ?? [])),
});

/** What final.json says; null when it is damaged, or another job's. */
export function parseFinal(json: string, applicationId: string): JobStatus | null {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return null;
  }
  const parsed = status.safeParse(value).data ?? null;
  return parsed?.applicationId === applicationId ? parsed : null;
}

/** `forgotten`: the cluster answers, and knows no such job. `silent`: it could not be asked. */
export type ClusterAnswer = ClusterWord | 'forgotten' | 'silent';

/** The job as its pages and `history show` tell it. */
export function storedStatus(record: JobRecord, answer: ClusterAnswer): JobStatus {
  const { applicationId, user } = record;
  const final = parseFinal(record.final, applicationId);
  // A process that is over uses nothing, and nobody waits to hear from it.
  if (final !== null) return { ...final, user, tasks: final.tasks.map((one) => ({ ...one, usage: null, silentMs: null })) };
  return pieced(record, answer);
}

function pieced({ applicationId, user, frozen, final, entries }: JobRecord, answer: ClusterAnswer): JobStatus {
  const first = entries[0]?.at ?? 0;
  const last = entries.at(-1)?.at ?? null;
  const word = typeof answer === 'string' ? null : answer;
  const result = word === null ? resultOf(entries, final, answer === 'silent') : word.result;
  const failed = entries.find(({ event }) => event === 'task-failed');
  return {
    applicationId,
    name: frozen?.job.name ?? word?.name ?? '',
    user,
    queue: frozen?.job.queue ?? word?.queue ?? '',
    state: result === null ? (entries.some(({ event }) => event === 'program-started') ? 'RUNNING' : 'STARTING') : result.state,
    message: result?.diagnostics ?? (answer === 'silent' ? 'The cluster does not answer: this is what the job wrote last.' : ''),
    masterAttempt: Math.max(1, entries.filter(({ event }) => event === 'master-registered').length),
    generations: Math.max(0, ...entries.map(({ generation }) => generation ?? 0)),
    startedAt: frozen?.submittedAt ?? word?.startedAt ?? first,
    finishedAt: result === null ? null : (word?.finishedAt ?? last),
    step: 0,
    metrics: {},
    checkpointStep: 0,
    checkpointDir: frozen?.checkpointDir ?? '',
    summaryDir: frozen?.summaryDir ?? '',
    notices: entries.filter(({ event }) => event === 'notice').map(({ detail }) => detail ?? ''),
    failure: failed === undefined ? null : firstFailure(failed),
    tensorboard: { state: 'off', message: '' },
    elastic: null,
    master: null,
    tasks: tasksOf(frozen, entries, result !== null),
  };
}

/** How it ended, when neither final.json nor the cluster says; null when it may not have. */
function resultOf(entries: readonly HistoryEntry[], final: string, silent: boolean): JobResult | null {
  const said = /^(SUCCEEDED|FAILED|KILLED)(?:: (.*))?$/s.exec(entries.findLast(({ event }) => event === 'job-finished')?.detail ?? '');
  if (said !== null) return { state: said[1] as JobResult['state'], diagnostics: said[2] ?? '' };
  if (silent && final === '') return null;
  const last = entries.at(-1);
  const lastWord = last === undefined ? 'It has left no events.' : `Its last event was ${last.event} at ${isoTime(last.at)}.`;
  const why =
    final === ''
      ? 'The job was cut off before it could say how it ended, and YARN no longer knows'
      : 'What the job wrote of its end is damaged';
  return { state: 'FAILED', diagnostics: `${why}. ${lastWord}` };
}

function isoTime(ms: number): string {
  return Number.isFinite(ms) && Math.abs(ms) < 8.64e15 ? new Date(ms).toISOString() : 'a time unknown';
}

function firstFailure({ role, index, detail = '' }: HistoryEntry): FirstFailure {
  const [sentence = '', , ...lines] = detail.split('\n');
  return { task: role === undefined || index === undefined ? null : `${role}:${index}`, text: sentence, lines };
}

function tasksOf(frozen: FrozenJob | null, entries: readonly HistoryEntry[], over: boolean): TaskStatus[] {
  const tasks = new Map<string, TaskStatus>();
  for (const { name, instances } of frozen?.job.roles ?? []) {
    for (let index = 0; index < instances && tasks.size < MAXIMUM_TASKS; index++) tasks.set(`${name}:${index}`, unknownTask(name, index));
  }
  for (const entry of entries) {
    const { role, index } = entry;
    if (role === undefined || index === undefined) continue;
    const key = `${role}:${index}`;
    const before = tasks.get(key) ?? unknownTask(role, index);
    if (tasks.has(key) || tasks.size < MAXIMUM_TASKS) tasks.set(key, after(before, entry));
  }
  return [...tasks.values()].map((one) => (over && !ENDED.has(one.state) ? { ...one, state: 'stopped' } : one));
}

const ENDED: ReadonlySet<TaskState> = new Set(['succeeded', 'failed', 'lost', 'stopped']);

function unknownTask(role: string, index: number): TaskStatus {
  return {
    role,
    index,
    state: 'requested',
    generation: 0,
    attempts: 0,
    failures: 0,
    containerId: null,
    node: null,
    nodeHttp: null,
    step: 0,
    metrics: {},
    usage: null,
    silentMs: null,
    exitCode: null,
    failure: null,
  };
}

function after(before: TaskStatus, entry: HistoryEntry): TaskStatus {
  const { event, detail = '' } = entry;
  const generation = Math.max(before.generation, entry.generation ?? 0);
  const now = { ...before, generation };
  switch (event) {
    case 'container-allocated':
      return {
        ...now,
        state: 'allocated',
        attempts: before.attempts + 1,
        containerId: entry.containerId ?? null,
        node: entry.node ?? null,
      };
    case 'task-requested':
      return { ...now, state: 'requested' };
    case 'executor-registered':
    // Ended because the gang forms anew; its executor is there still.
    case 'program-stopped':
      return { ...now, state: 'registered' };
    case 'program-started':
      return { ...now, state: 'running' };
    case 'program-ended': {
      const code = /^exited with code (-?\d+)$/.exec(detail)?.[1];
      return { ...now, state: code === '0' ? 'succeeded' : 'failed', exitCode: code === undefined ? null : Number(code) };
    }
    case 'task-failed':
      return { ...now, state: 'failed', failures: before.failures + 1, failure: detail };
    default:
      return now;
  }
}
