import type { FrozenJob, Role } from '../../../conf/job.ts';
import { parseFrozenJob } from '../../../conf/resolve/frozen-job.ts';
import { jobMessage } from '../../../conf/status/job-message.ts';
import type { HistoryEntry, JobResult, JobStatus, OrphanedContainer, TaskStatus } from '../../../conf/status/status.ts';
import type { FirstFailure } from '../../../conf/status/task-failure.ts';
import { CheckpointStore } from '../../../contract/checkpoint/checkpoint-store.ts';
import type { TonyError } from '../../../platform/errors.ts';
import { isStorageUnreachable } from '../../../storage/storage-unreachable.ts';
import { orderContainers } from '../../job/task-containers.ts';
import { type ClusterAnswer, storedStatus } from '../../records/stored-status.ts';
import type { JobConnection, Observation } from '../job-connection.ts';
import { askConfiguration, eventPages, ifAvailable, type JobRecords, readHistory, type YarnFacts } from '../job-records.ts';
import { type LostNode, lostNodes } from './lost-nodes.ts';

export interface JobDescription
  extends Pick<JobStatus, 'applicationId' | 'name' | 'user' | 'queue' | 'finishedAt' | 'step' | 'metrics' | 'generations' | 'notices'> {
  /** First task failure, or null if no task has failed. The job may have recovered from the failure. */
  readonly failure: FirstFailure | null;
  /** State that the ApplicationMaster reports, or YARN's state before the first report. */
  readonly state: string;
  /** Reason why the job is waiting, or why it ended as it did. */
  readonly message: string;
  readonly result: JobResult | null;
  /** Time of the submission in ms since the epoch, or null if it is unknown. */
  readonly submittedAt: number | null;
  /** Start time in ms since the epoch, or null if it is unknown. */
  readonly startedAt: number | null;
  readonly lostNodes: readonly LostNode[];
  /** Orphaned containers whose programs may still be running. Once the job has ended, the containers that were orphaned when it ended. */
  readonly orphanedContainers: readonly OrphanedContainer[];
  readonly pages: string | null;
  /** YARN's information about the job, or null for a local job. */
  readonly yarn: YarnFacts | null;
  /** Roles in job.yaml. Empty if the configuration is unavailable. */
  readonly roles: readonly Role[];
  readonly tasks: readonly DescribedTask[];
  readonly checkpoints: DescribedCheckpoints | null;
  /** Locations of the job's files. Null for files that do not exist yet or whose location is unknown. */
  readonly places: {
    readonly history: string | null;
    readonly checkpoints: string | null;
    readonly summaries: string | null;
    readonly output: string | null;
    readonly logs: string | null;
  };
  /** Sentence about what could not be read because HDFS is unreachable, or null. */
  readonly unreadable: string | null;
  /** The frozen job.json, with probable secrets replaced by `***`, or null if the file is unavailable. */
  readonly configuration: unknown;
}

export interface DescribedTask extends TaskStatus {
  /** All containers that have run the task, oldest first. */
  readonly containers: readonly { readonly containerId: string; readonly node: string | null }[];
}

export interface DescribedCheckpoints {
  readonly dir: string;
  /** Step of the newest checkpoint that the job reported, or 0 before the first checkpoint. */
  readonly newest: number;
  /** Steps of the stored checkpoints, oldest first, or null if the checkpoint folder cannot be listed. */
  readonly kept: readonly number[] | null;
  /** Checkpoint with the evaluator's best metric, or null if there is no evaluator. */
  readonly best: { readonly step: number; readonly metric: string; readonly value: number } | null;
}

/**
 * Collects the information about a job from YARN, the ApplicationMaster and the history. If HDFS is unreachable, the description contains
 * only what YARN and the ApplicationMaster know.
 * @throws TonyError APPLICATION_UNKNOWN, or a connection error if the ResourceManager is unreachable
 */
export async function describeJob(connection: JobConnection): Promise<JobDescription> {
  const { applicationId, records } = connection;
  const observation = await connection.observe();
  const over = observation.result !== null;
  let unreachable: TonyError | null = null;
  const ifReachable = async <T>(reading: Promise<T>): Promise<T | null> => {
    try {
      return await reading;
    } catch (error) {
      if (!isStorageUnreachable(error)) {
        throw error;
      }
      unreachable = error;
      return null;
    }
  };
  const [yarn, history, configuration, logs, pages] = await Promise.all([
    records.yarn(),
    ifReachable(readHistory(records)),
    ifReachable(askConfiguration(records)),
    ifReachable(records.logs()),
    over ? null : connection.pages(),
  ]);
  const frozen = frozenOf(configuration);
  const status = observation.status ?? (history && storedStatus(history.record, clusterAnswer(yarn, observation)));
  const entries = (over ? null : await liveEntries(records)) ?? history?.record.entries ?? [];
  const containers = orderContainers(status, entries);
  const checkpointDir = status?.checkpointDir || frozen?.checkpointDir || null;
  return {
    applicationId,
    failure: status?.failure ?? null,
    name: status?.name || yarn?.name || frozen?.job.name || '',
    user: yarn?.user || status?.user || frozen?.user || '',
    queue: yarn?.queue.replace(/^root\./, '') || status?.queue || frozen?.job.queue || '',
    state: observation.result?.state ?? status?.state ?? observation.phase,
    message: observation.result?.diagnostics ?? (observation.waiting || (status === null ? '' : jobMessage(status))),
    result: observation.result,
    submittedAt: status?.submittedAt || yarn?.startedAt || null,
    startedAt: status?.startedAt || yarn?.startedAt || null,
    finishedAt: status?.finishedAt ?? yarn?.finishedAt ?? null,
    step: status?.step ?? 0,
    metrics: status?.metrics ?? {},
    generations: status?.generations ?? 0,
    notices: status?.notices ?? [],
    lostNodes: lostNodes(entries),
    orphanedContainers: status?.orphanedContainers ?? [],
    pages,
    yarn,
    roles: frozen?.job.roles ?? [],
    tasks: (status?.tasks ?? []).map((task) => {
      const own = containers.filter((each) => each.task === `${task.role}:${task.index}`);
      // Resource usage and heartbeats are outdated once the job has ended.
      const now = over ? { ...task, usage: null, silentMs: null } : task;
      return { ...now, containers: own.map(({ containerId, node }) => ({ containerId, node })) };
    }),
    checkpoints:
      checkpointDir !== null && (await records.mayRead(checkpointDir)) ? await checkpointsIn(records, checkpointDir, status) : null,
    places: {
      history: history?.folder ?? frozen?.history ?? null,
      checkpoints: checkpointDir,
      summaries: status?.summaryDir || frozen?.summaryDir || null,
      output: frozen?.outputDir ?? null,
      logs,
    },
    unreadable: unreachableFiles(unreachable),
    configuration,
  };
}

function unreachableFiles(error: TonyError | null): string | null {
  return error && `The history, the stored configuration and the checkpoints could not be read. ${error.message}`;
}

/** Returns the parsed job.json, or null if an older version of tony-ts wrote it. */
function frozenOf(configuration: unknown): FrozenJob | null {
  try {
    return configuration === null ? null : parseFrozenJob(JSON.stringify(configuration));
  } catch {
    return null;
  }
}

function clusterAnswer(yarn: YarnFacts | null, { result }: Observation): ClusterAnswer {
  return yarn === null ? 'forgotten' : { ...yarn, result };
}

async function liveEntries(records: JobRecords): Promise<readonly HistoryEntry[] | null> {
  const entries: HistoryEntry[] = [];
  let isAvailable = false;
  for await (const page of eventPages(records, 0)) {
    isAvailable ||= page !== null;
    for (const entry of page?.entries ?? []) {
      entries.push(entry);
    }
  }
  return isAvailable ? entries : null;
}

async function checkpointsIn({ storage }: JobRecords, dir: string, status: JobStatus | null): Promise<DescribedCheckpoints> {
  const store = new CheckpointStore(storage, dir);
  const [kept, best] = await Promise.all([ifAvailable(store.steps()), ifAvailable(store.marks.best())]);
  return {
    dir,
    newest: status?.checkpointStep ?? 0,
    kept: kept?.toSorted((a, b) => a - b) ?? null,
    best: best && { step: best.step, metric: best.metric, value: best.value },
  };
}
