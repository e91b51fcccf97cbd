import type { RoleCondition } from '../job.ts';
import type { FirstFailure, ProgramEnd, TaskFailure } from './task-failure.ts';

/** Status of a job, as its ApplicationMaster reports it, and the content of final.json. `job-info.ts` adds what others know about the job. */
export interface JobStatus {
  readonly id: string;
  readonly name: string;
  readonly user: string;
  readonly queue: string;
  readonly state: (typeof UNFINISHED_STATES)[number] | JobResult['state'];
  /** Why the job is waiting, or how it ended; may be empty. `jobMessage` adds the durations of the two fields below. */
  readonly message: string;
  /** How long the job has been waiting for the containers that `message` names, in ms. null if it is not waiting for containers. */
  readonly waitingMs: number | null;
  /**
   * Maximum time in ms until the programs for whose end tasks wait have ended. null unless `message` says that an executor of such a
   * program is not reachable.
   */
  readonly predecessorsEndInMs: number | null;
  /** The task whose newest failure `message` describes. null if it describes none. */
  readonly failedTask: { readonly role: string; readonly index: number } | null;
  readonly masterAttempt: number;
  readonly generations: number;
  /** Time of the submission in ms since the epoch, on the client's clock. */
  readonly createdAt: number;
  /** Time at which the ApplicationMaster started, or at which the quotas admitted the job. */
  readonly startedAt: number;
  readonly finishedAt: number | null;
  readonly step: number;
  /** Progress of a running job, from 0 to 1. YARN shows the same value. */
  readonly progress?: number;
  readonly metrics: Readonly<Record<string, number>>;
  readonly checkpointStep: number;
  readonly checkpointUri: string;
  readonly summaryUri: string;
  readonly notices: readonly string[];
  /** First failure of a task, or null if no task has failed. */
  readonly failure: FirstFailure | null;
  readonly tensorboard: TensorBoardStatus;
  /** State of the elastic role, or null if the job has none. */
  readonly elastic: ElasticStatus | null;
  readonly master: MasterStatus | null;
  readonly tasks: readonly TaskStatus[];
  /** Orphaned containers. The list is usually empty. */
  readonly orphanedContainers: readonly OrphanedContainer[];
}

/**
 * Container that YARN considers lost, but whose program may still be running. Either its node is lost, or its NodeManager did not stop the
 * container.
 */
export interface OrphanedContainer {
  readonly role: string;
  /** Index of the task, or null if the ApplicationMaster does not know which task ran in the container. */
  readonly index: number | null;
  readonly containerId: string;
  /** Address of the NodeManager as host:port. */
  readonly node: string;
  /** Whether the executor is connected and has been ordered to stop. */
  readonly attached: boolean;
  /**
   * Time in ms after which the executor's lease ends. The executor then ends the program. If `attached` is true, every message renews the
   * lease.
   */
  readonly mayRunForMs: number;
}

export interface TensorBoardStatus {
  /**
   * State of TensorBoard. `off` means that job.yaml does not enable TensorBoard. `unavailable` means that TensorBoard cannot run. `message`
   * then contains the reason.
   */
  readonly state: 'off' | 'waiting' | 'starting' | 'ready' | 'unavailable';
  readonly message: string;
}

/** The job's elastic role, whose number of tasks depends on the free resources in the cluster. */
export interface ElasticStatus {
  readonly role: string;
  /** Number of tasks in the current generation, or 0 while a generation is being formed. */
  readonly running: number;
  readonly min: number;
  readonly max: number;
}

export interface MasterStatus {
  readonly node: string;
  readonly memoryBytes: number;
  readonly cpuCores: number;
  /** 99th percentile of timer delays during the last minute, in ms. */
  readonly latenessMs: number;
}

export interface TaskStatus {
  readonly role: string;
  readonly index: number;
  readonly state: TaskState;
  /** The task's number within the gang, or null if it has none. */
  readonly rank: number | null;
  readonly generation: number;
  /** Number of containers that the task has had. A gang returns containers in which no program has started. */
  readonly attempts: number;
  /** How often a program of the task has started. */
  readonly programStarts: number;
  readonly failures: number;
  /** The task's container, or the last container of a task that is over. Null if the task has none, as are its node and the node's web server. */
  readonly containerId: string | null;
  readonly node: string | null;
  readonly nodeHttp: string | null;
  readonly step: number;
  readonly metrics: Readonly<Record<string, number>>;
  readonly usage: Usage | null;
  /** Time since the last heartbeat in ms, or null before the first heartbeat. */
  readonly silentMs: number | null;
  /** How the task's newest program ended, or null while it is running. */
  readonly exit: ProgramEnd | null;
  /** Newest failure, or null if the task has not failed. */
  readonly failure: TaskFailure | null;
  /** Conditions that must be met before the job requests a container for the task. Undefined if the task does not wait for other roles. */
  readonly waitsFor?: readonly RoleCondition[] | undefined;
}

/** Returns how often the task's program has started again, alone or together with its gang. */
export function restartsOf({ programStarts }: Pick<TaskStatus, 'programStarts'>): number {
  return Math.max(0, programStarts - 1);
}

/** Returns the mean utilisation of the task's GPUs, from 0 to 1, or null if the task has no GPUs. */
export function gpuUtilization({ gpus }: Usage): number | null {
  return gpus.length === 0 ? null : gpus.reduce((sum, { utilization }) => sum + utilization, 0) / gpus.length;
}

export interface Usage {
  readonly memoryBytes: number;
  readonly cpuCores: number;
  readonly gpus: readonly { index: number; utilization: number; memoryUsedBytes: number; memoryTotalBytes: number }[];
  readonly stopped: boolean;
}

export const TASK_STATES = ['requested', 'launching', 'registered', 'running', 'succeeded', 'failed', 'lost', 'stopped'] as const;

/** Task state. In the `launching` state, YARN has allocated the task's container, but the executor has not registered yet. */
export type TaskState = (typeof TASK_STATES)[number];

/** Returns the roles for which a task waits. The job does not request a container for the task until the wait ends. */
export function awaitedRoles({ state, waitsFor = [] }: TaskStatus): string[] {
  return state === 'requested' ? [...new Set(waitsFor.map(({ role }) => role))] : [];
}

/** Returns a task's state for display, for example `running` or `waits for prepare`. */
export function taskStateText(task: TaskStatus): string {
  const roles = awaitedRoles(task);
  return roles.length === 0 ? task.state : `waits for ${roles.join(', ')}`;
}

export function isTaskOver(state: TaskState): boolean {
  return state === 'succeeded' || state === 'failed' || state === 'lost' || state === 'stopped';
}

/** States of a job whose ApplicationMaster runs. */
export const UNFINISHED_STATES = ['starting', 'waiting', 'running', 'recovering'] as const;

export const END_STATES = ['succeeded', 'failed', 'killed'] as const;

/** All states of a job. In the `submitted` state, YARN has not accepted the job yet. */
export const JOB_STATES = ['submitted', ...UNFINISHED_STATES, ...END_STATES] as const;
export type JobState = (typeof JOB_STATES)[number];

export function isEndState(state: string): state is JobResult['state'] {
  return state === 'succeeded' || state === 'failed' || state === 'killed';
}

export interface JobResult {
  readonly state: (typeof END_STATES)[number];
  /**
   * Message that YARN shows as diagnostics. If the job failed, the message contains the cause and the next step. If training ended early,
   * it contains the reason. Otherwise, it is empty.
   */
  readonly message: string;
}

/** Line of events.jsonl in the history. */
export interface HistoryEntry {
  readonly at: number;
  readonly type: string;
  readonly role?: string;
  readonly index?: number;
  /** Number of the container, counted from 1 for each task. */
  readonly attempt?: number;
  readonly generation?: number;
  readonly containerId?: string;
  readonly node?: string;
  /** How the program ended, in a `program-ended` event. */
  readonly exit?: ProgramEnd;
  /** Cause and cost of the failure, in a `task-failed` or `failure-corrected` event. */
  readonly failure?: TaskFailure;
  /** State of the executor's program, in an `executor-registered` event. */
  readonly program?: 'idle' | 'running' | 'ended';
  /** Reason why the previous generation ended, in a `generation-started` event. */
  readonly reason?: string;
  /** The job's result, in a `job-finished` event. The `detail` field of this event contains the message. */
  readonly state?: JobResult['state'];
  readonly message?: string;
}

/** Line of metrics-N.jsonl in the history. It contains the resource usage of all running tasks at one point in time. */
export interface UsageSample {
  /** Time in ms since the epoch. */
  readonly at: number;
  readonly tasks: readonly TaskUsageSample[];
}

export interface TaskUsageSample {
  /** Name of the task, for example `worker:0`. */
  readonly task: string;
  readonly step: number;
  readonly memoryBytes: number;
  readonly cpuCores: number;
  /** Mean utilisation of the task's GPUs, from 0 to 1, or null if the task has no GPUs. */
  readonly gpuUtilization: number | null;
  readonly gpuMemoryBytes: number | null;
}

/** The fields of a job whose ApplicationMaster has reported nothing. */
export const UNREPORTED = {
  waitingMs: null,
  predecessorsEndInMs: null,
  failedTask: null,
  step: 0,
  metrics: {},
  checkpointStep: 0,
  notices: [],
  failure: null,
  tensorboard: { state: 'off', message: '' },
  elastic: null,
  master: null,
  tasks: [],
  orphanedContainers: [],
} as const satisfies Partial<JobStatus>;
