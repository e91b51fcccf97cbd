import { TonyError } from '../conf/errors.ts';
import { parseFrozenJob } from '../conf/frozen-job.ts';
import type { FrozenJob, Role } from '../conf/job.ts';
import type { FirstFailure, HistoryEntry, JobResult, JobStatus, TaskStatus } from '../conf/status.ts';
import { CheckpointStore } from '../training/checkpoint-store.ts';
import { type ClusterAnswer, storedStatus } from './history/stored-status.ts';
import type { JobConnection, Observation } from './job-connection.ts';
import { askConfiguration, askEvents, type JobRecords, readHistory, type YarnFacts } from './job-records.ts';
import { orderContainers } from './task-containers.ts';

/** Everything that is to be known of one job, whether it waits, runs or is over. */
export interface JobDescription {
  readonly applicationId: string;
  /** What went wrong first, with the last lines of the program; null when nothing has. A job may have gone on in spite of it. */
  readonly failure: FirstFailure | null;
  readonly name: string;
  readonly user: string;
  readonly queue: string;
  /** What the job says of itself; before that what YARN says. */
  readonly state: string;
  /** Why it waits, or how it ended. */
  readonly message: string;
  readonly result: JobResult | null;
  /** ms since the epoch; null when nobody knows. */
  readonly startedAt: number | null;
  readonly finishedAt: number | null;
  readonly step: number;
  readonly metrics: Readonly<Record<string, number>>;
  readonly generations: number;
  readonly notices: readonly string[];
  readonly pages: string | null;
  /** Null for a job of this machine. */
  readonly yarn: YarnFacts | null;
  /** As they were asked for; empty where the configuration is not to be had. */
  readonly roles: readonly Role[];
  readonly tasks: readonly DescribedTask[];
  readonly checkpoints: DescribedCheckpoints | null;
  /** Where things lie; null where that is not known, or where nothing is yet. */
  readonly places: {
    readonly history: string | null;
    readonly checkpoints: string | null;
    readonly summaries: string | null;
    readonly output: string | null;
    readonly logs: string | null;
  };
  /** job.json as it was frozen, every default filled in, with what looks like a secret as `***`; null when it is not to be had. */
  readonly configuration: unknown;
}

export interface DescribedTask extends TaskStatus {
  /** All it has had, the oldest first. */
  readonly containers: readonly { readonly containerId: string; readonly node: string | null }[];
}

export interface DescribedCheckpoints {
  readonly dir: string;
  /** The newest step that was told; 0 before the first. */
  readonly newest: number;
  /** Steps that are there, the oldest first; null when they cannot be listed. */
  readonly kept: readonly number[] | null;
  /** The one that an evaluator found best; null when none did. */
  readonly best: { readonly step: number; readonly metric: string; readonly value: number } | null;
}

/**
 * Asks all who know something of a job.
 *
 * @throws TonyError APPLICATION_UNKNOWN, or that the cluster cannot be reached.
 */
export async function describeJob(connection: JobConnection): Promise<JobDescription> {
  const { applicationId, records } = connection;
  const observation = await connection.observe();
  const over = observation.result !== null;
  const [yarn, history, configuration, logs, pages] = await Promise.all([
    records.yarn(),
    readHistory(records),
    askConfiguration(records),
    records.logs(),
    over ? null : connection.pages(),
  ]);
  const frozen = frozenOf(configuration);
  const status = observation.status ?? (history && storedStatus(history.record, wordOf(yarn, observation)));
  const entries = (over ? null : await liveEntries(records)) ?? history?.record.entries ?? [];
  const containers = orderContainers(status, entries);
  const checkpointDir = status?.checkpointDir || frozen?.checkpointDir || null;
  return {
    applicationId,
    failure: status?.failure ?? unspokenFailure(observation.result),
    name: status?.name || yarn?.name || frozen?.job.name || '',
    user: yarn?.user || status?.user || frozen?.user || '',
    queue: yarn?.queue.replace(/^root\./, '') || status?.queue || frozen?.job.queue || '',
    state: observation.result?.state ?? status?.state ?? observation.phase,
    message: observation.result?.diagnostics ?? (observation.waiting || (status?.message ?? '')),
    result: observation.result,
    startedAt: status?.startedAt || yarn?.startedAt || null,
    finishedAt: status?.finishedAt ?? yarn?.finishedAt ?? null,
    step: status?.step ?? 0,
    metrics: status?.metrics ?? {},
    generations: status?.generations ?? 0,
    notices: status?.notices ?? [],
    pages,
    yarn,
    roles: frozen?.job.roles ?? [],
    tasks: (status?.tasks ?? []).map((task) => {
      const own = containers.filter((each) => each.task === `${task.role}:${task.index}`);
      // A process that is over uses nothing, and nobody waits to hear from it.
      const now = over ? { ...task, usage: null, silentMs: null } : task;
      return { ...now, containers: own.map(({ containerId, node }) => ({ containerId, node })) };
    }),
    checkpoints: checkpointDir === null ? null : await checkpointsIn(records, checkpointDir, status),
    places: {
      history: history?.folder ?? frozen?.history ?? null,
      checkpoints: checkpointDir,
      summaries: status?.summaryDir || frozen?.summaryDir || null,
      output: frozen?.outputDir ?? null,
      logs,
    },
    configuration,
  };
}

/** Null for what an older version has written. */
function frozenOf(configuration: unknown): FrozenJob | null {
  try {
    return configuration === null ? null : parseFrozenJob(JSON.stringify(configuration));
  } catch {
    return null;
  }
}

function wordOf(yarn: YarnFacts | null, { result }: Observation): ClusterAnswer {
  return yarn === null ? 'forgotten' : { ...yarn, result };
}

/** A job that never came so far as to tell of a failure: YARN's diagnostics are all there is. */
function unspokenFailure(result: JobResult | null): FirstFailure | null {
  if (result?.state !== 'FAILED') return null;
  const [text = '', ...lines] = result.diagnostics.trim().split('\n');
  return { task: null, text, lines };
}

async function liveEntries(records: JobRecords): Promise<readonly HistoryEntry[] | null> {
  const entries: HistoryEntry[] = [];
  for (let after = 0; ; ) {
    const page = await askEvents(records, after);
    if (page === null) return entries.length === 0 ? null : entries;
    if (page.entries.length === 0) return entries;
    entries.push(...page.entries);
    after = page.next;
  }
}

async function checkpointsIn({ storage }: JobRecords, dir: string, status: JobStatus | null): Promise<DescribedCheckpoints> {
  const store = new CheckpointStore(storage, dir);
  const [kept, best] = await Promise.all([unlessRefused(store.steps()), unlessRefused(store.best())]);
  return {
    dir,
    newest: status?.checkpointStep ?? 0,
    kept: kept?.toSorted((a, b) => a - b) ?? null,
    best: best && { step: best.step, metric: best.metric, value: best.value },
  };
}

/** What is another user's, or lies where this storage does not reach, cannot be listed. */
async function unlessRefused<T>(reading: Promise<T>): Promise<T | null> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof TonyError) return null;
    throw error;
  }
}
