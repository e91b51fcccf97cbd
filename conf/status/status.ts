import type { RoleCondition } from '../job.ts';
import type { FirstFailure, ProgramEnd, TaskFailure } from './task-failure.ts';

/** Job status: the response of `GET /tony/api/job`, and the content of final.json. */
export interface JobStatus {
  readonly applicationId: string;
  readonly name: string;
  readonly user: string;
  readonly queue: string;
  readonly state: 'STARTING' | 'WAITING' | 'RUNNING' | 'RECOVERING' | JobResult['state'];
  readonly message: string;
  readonly masterAttempt: number;
  readonly generations: number;
  readonly startedAt: number;
  readonly finishedAt: number | null;
  readonly step: number;
  /** Completed share of a running job, from 0 to 1, as YARN shows it. */
  readonly progress?: number;
  readonly metrics: Readonly<Record<string, number>>;
  readonly checkpointStep: number;
  readonly checkpointDir: string;
  readonly summaryDir: string;
  readonly notices: readonly string[];
  /** null if no task has failed. */
  readonly failure: FirstFailure | null;
  readonly tensorboard: TensorBoardStatus;
  /** null unless the job has an elastic role. */
  readonly elastic: ElasticStatus | null;
  readonly master: MasterStatus | null;
  readonly tasks: readonly TaskStatus[];
  /** Orphaned containers; usually empty. */
  readonly orphanedContainers: readonly OrphanedContainer[];
}

/**
 * A container that YARN considers lost although its program may still be running, because its node is lost or its NodeManager did not stop
 * it.
 */
export interface OrphanedContainer {
  readonly role: string;
  /** null if the ApplicationMaster does not know which task ran in the container. */
  readonly index: number | null;
  readonly containerId: string;
  /** host:port of the NodeManager. */
  readonly node: string;
  /** Whether the executor is connected and has received the stop order. */
  readonly attached: boolean;
  /** Remaining lease of the executor (ms), after which it ends the program. An `attached` executor renews its lease with every message. */
  readonly mayRunForMs: number;
}

export interface TensorBoardStatus {
  /** `off`: job.yaml does not enable TensorBoard. `unavailable`: TensorBoard cannot run, for the reason in `message`. */
  readonly state: 'off' | 'waiting' | 'starting' | 'ready' | 'unavailable';
  readonly message: string;
}

/** The elastic role of the job, whose number of tasks depends on the free resources of the cluster. */
export interface ElasticStatus {
  readonly role: string;
  /** Number of tasks in the current generation; 0 while a generation is being formed. */
  readonly running: number;
  readonly least: number;
  readonly most: number;
}

export interface MasterStatus {
  readonly node: string;
  readonly rssBytes: number;
  readonly cpuCores: number;
  /** 99th percentile of the timer delay during the last minute, ms. */
  readonly latenessMs: number;
}

export interface TaskStatus {
  readonly role: string;
  readonly index: number;
  readonly state: TaskState;
  readonly generation: number;
  readonly attempts: number;
  readonly failures: number;
  readonly containerId: string | null;
  readonly node: string | null;
  readonly nodeHttp: string | null;
  readonly step: number;
  readonly metrics: Readonly<Record<string, number>>;
  readonly usage: Usage | null;
  /** Time since the last heartbeat (ms); null before the first heartbeat. */
  readonly silentMs: number | null;
  /** Exit of the task's newest program; null while the program runs. */
  readonly exit: ProgramEnd | null;
  /** Newest failure; null if the task has not failed. */
  readonly failure: TaskFailure | null;
  /** Conditions for which the task waits before the job requests a container for it. Absent if the task does not wait for other roles. */
  readonly waitsFor?: readonly RoleCondition[] | undefined;
}

/** Mean utilisation of the task's GPUs, from 0 to 1; null without GPUs. */
export function gpuUtilization({ gpus }: Usage): number | null {
  return gpus.length === 0 ? null : gpus.reduce((sum, { utilization }) => sum + utilization, 0) / gpus.length;
}

export interface Usage {
  readonly rssBytes: number;
  readonly cpuCores: number;
  readonly gpus: readonly { index: number; utilization: number; memoryUsedBytes: number; memoryTotalBytes: number }[];
  readonly stopped: boolean;
}

export const TASK_STATES = ['requested', 'launching', 'registered', 'running', 'succeeded', 'failed', 'lost', 'stopped'] as const;

/** `launching`: YARN has allocated the task's container, but the executor has not registered yet. */
export type TaskState = (typeof TASK_STATES)[number];

/** Returns the roles for which a task waits before the job requests a container for it. */
export function awaitedRoles({ state, waitsFor = [] }: TaskStatus): string[] {
  return state === 'requested' ? [...new Set(waitsFor.map(({ role }) => role))] : [];
}

/** Returns the state of a task for users, such as `running` or `waits for prepare`. */
export function taskStateText(task: TaskStatus): string {
  const roles = awaitedRoles(task);
  return roles.length === 0 ? task.state : `waits for ${roles.join(', ')}`;
}

export function isTaskOver(state: TaskState): boolean {
  return state === 'succeeded' || state === 'failed' || state === 'lost' || state === 'stopped';
}

export const END_STATES = ['SUCCEEDED', 'FAILED', 'KILLED'] as const;

export function isEndState(state: string): state is JobResult['state'] {
  return state === 'SUCCEEDED' || state === 'FAILED' || state === 'KILLED';
}

export interface JobResult {
  readonly state: (typeof END_STATES)[number];
  /**
   * Message that YARN shows as diagnostics. After a failure: the cause and the next step. After a success: the reason if training ended
   * early, otherwise empty.
   */
  readonly diagnostics: string;
}

/** One line of events.jsonl in the history. */
export interface HistoryEntry {
  readonly at: number;
  readonly event: string;
  readonly role?: string;
  readonly index?: number;
  /** Number of the container within the task, starting at 1. */
  readonly attempt?: number;
  readonly generation?: number;
  readonly containerId?: string;
  readonly node?: string;
  /** Exit of the program; set for `program-ended`. */
  readonly exit?: ProgramEnd;
  /** Cause of the failure, and whether it counts as a restart; set for `task-failed` and `failure-corrected`. */
  readonly failure?: TaskFailure;
  /** State of the executor's program; set for `executor-registered`. */
  readonly phase?: 'idle' | 'running' | 'ended';
  /** Reason why the previous generation ended; set for `generation-started`. */
  readonly reason?: string;
  /** Result of the job; set for `job-finished`, whose `detail` contains the message. */
  readonly result?: JobResult['state'];
  readonly detail?: string;
}

/** One line of metrics-N.jsonl in the history: the resource usage of all running tasks at one time. */
export interface UsageSample {
  /** Time in ms since the epoch. */
  readonly at: number;
  readonly tasks: readonly TaskUsageSample[];
}

export interface TaskUsageSample {
  /** Task name, such as `worker:0`. */
  readonly task: string;
  readonly step: number;
  readonly rssBytes: number;
  readonly cpuCores: number;
  /** Mean utilisation of the task's GPUs, from 0 to 1; null without GPUs. */
  readonly gpuUtilization: number | null;
  readonly gpuMemoryBytes: number | null;
}
