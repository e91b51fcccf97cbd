import type { FrozenJob, Role } from '../../../conf/job.ts';
import { parseFrozenJob } from '../../../conf/resolve/frozen-job.ts';
import { isOver, isReported, type JobInfo, jobInfo, queueBelowRoot, type YarnReport } from '../../../conf/status/job-info.ts';
import { type HistoryEntry, isEndState, type TaskStatus } from '../../../conf/status/status.ts';
import { CheckpointStore } from '../../../contract/checkpoint/checkpoint-store.ts';
import type { TonyError } from '../../../platform/errors.ts';
import { isStorageUnreachable } from '../../../storage/storage-unreachable.ts';
import { orderContainers } from '../../job/task-containers.ts';
import { type ClusterAnswer, storedStatus } from '../../records/stored-status.ts';
import type { JobConnection } from '../job-connection.ts';
import { askConfiguration, eventPages, ifAvailable, type JobRecords, readHistory } from '../job-records.ts';
import { type LostNode, lostNodes } from './lost-nodes.ts';

export interface JobDescription extends Omit<JobInfo, 'tasks'> {
  readonly lostNodes: readonly LostNode[];
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
  readonly uri: string;
  /** Step of the newest checkpoint that the job reported, or 0 before the first checkpoint. */
  readonly latest: number;
  /** Steps of the stored checkpoints, oldest first, or null if the checkpoint folder cannot be listed. */
  readonly kept: readonly number[] | null;
  /** Checkpoint with the evaluator's best metric, or null if there is no evaluator. */
  readonly best: { readonly step: number; readonly metric: string; readonly value: number } | null;
}

/**
 * Collects the information about a job from YARN, the ApplicationMaster and the history. If HDFS is unreachable, the description contains
 * only what YARN and the ApplicationMaster know.
 * @throws TonyError JOB_NOT_FOUND, or a connection error if the ResourceManager is unreachable
 */
export async function describeJob(connection: JobConnection): Promise<JobDescription> {
  const { records } = connection;
  const observed = await connection.observe();
  const over = isOver(observed);
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
  const stored = history && !isReported(observed) ? storedStatus(history.record, clusterAnswer(yarn, observed)) : null;
  const job: JobInfo = stored === null ? observed : { ...jobInfo(stored), state: observed.state, message: observed.message };
  const entries = (over ? null : await liveEntries(records)) ?? history?.record.entries ?? [];
  const containers = orderContainers(job.tasks, entries);
  const checkpointUri = job.checkpointUri || frozen?.checkpointDir || '';
  return {
    ...job,
    name: job.name || yarn?.name || frozen?.job.name || '',
    user: yarn?.user || job.user || frozen?.user || '',
    queue: queueBelowRoot(yarn?.queue ?? '') || job.queue || frozen?.job.queue || '',
    createdAt: job.createdAt ?? yarn?.startedAt ?? null,
    finishedAt: job.finishedAt ?? yarn?.finishedAt ?? null,
    urls: { pages, tracking: connection.trackingUrl },
    yarn,
    lostNodes: lostNodes(entries),
    roles: frozen?.job.roles ?? [],
    tasks: job.tasks.map((task) => {
      const own = containers.filter((each) => each.task === `${task.role}:${task.index}`);
      // Resource usage and heartbeats are outdated once the job has ended.
      const now = over ? { ...task, usage: null, silentMs: null } : task;
      return { ...now, containers: own.map(({ containerId, node }) => ({ containerId, node })) };
    }),
    checkpoints:
      checkpointUri !== '' && (await records.mayRead(checkpointUri))
        ? await checkpointsIn(records, checkpointUri, job.checkpointStep)
        : null,
    places: {
      history: history?.folder ?? frozen?.history ?? null,
      checkpoints: checkpointUri || null,
      summaries: job.summaryUri || frozen?.summaryDir || null,
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

function clusterAnswer(yarn: YarnReport | null, { state, message }: JobInfo): ClusterAnswer {
  return yarn === null ? 'forgotten' : { ...yarn, result: isEndState(state) ? { state, message } : null };
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

async function checkpointsIn({ storage }: JobRecords, uri: string, latest: number): Promise<DescribedCheckpoints> {
  const store = new CheckpointStore(storage, uri);
  const [kept, best] = await Promise.all([ifAvailable(store.steps()), ifAvailable(store.marks.best())]);
  return {
    uri,
    latest,
    kept: kept?.toSorted((a, b) => a - b) ?? null,
    best: best && { step: best.step, metric: best.metric, value: best.value },
  };
}
