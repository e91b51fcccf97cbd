import type { FirstFailure, ProgramEnd, TaskFailure } from './task-failure.ts';

/** The status of a job for users: the response of `GET /tony/api/job` and the content of final.json. */
export interface JobStatus {
  readonly applicationId: string;
  readonly name: string;
  readonly user: string;
  readonly queue: string;
  readonly state: 'STARTING' | 'WAITING' | 'RUNNING' | 'RECOVERING' | JobResult['state'];
  /** Why the job waits, or how it ended. */
  readonly message: string;
  readonly masterAttempt: number;
  readonly generations: number;
  readonly startedAt: number;
  readonly finishedAt: number | null;
  readonly step: number;
  readonly metrics: Readonly<Record<string, number>>;
  readonly checkpointStep: number;
  readonly checkpointDir: string;
  readonly summaryDir: string;
  readonly notices: readonly string[];
  /** The first failure; null when nothing has failed. */
  readonly failure: FirstFailure | null;
  readonly tensorboard: TensorBoardStatus;
  /** null for a job of fixed size. */
  readonly elastic: ElasticStatus | null;
  readonly master: MasterStatus | null;
  readonly tasks: readonly TaskStatus[];
  /** Containers that YARN considers lost but whose programs may still be running; usually empty. */
  readonly orphanedContainers: readonly OrphanedContainer[];
}

/**
 * A container that YARN considers lost while its program may still be running: its node is lost, or its NodeManager does
 * not stop the container.
 */
export interface OrphanedContainer {
  readonly role: string;
  /** null when the ApplicationMaster does not know the task of the container. */
  readonly index: number | null;
  readonly containerId: string;
  /** host:port of its NodeManager. */
  readonly node: string;
  /** True if the executor is connected and has received the order to stop. */
  readonly attached: boolean;
  /** The remaining lease of the executor (ms), after which the program ends. Each message of an `attached` executor renews the lease. */
  readonly mayRunForMs: number;
}

export interface TensorBoardStatus {
  /** `off`: job.yaml does not set `tensorboard`. `unavailable`: TensorBoard cannot run; `message` states the reason. */
  readonly state: 'off' | 'waiting' | 'starting' | 'ready' | 'unavailable';
  readonly message: string;
}

/** An elastic role, whose number of tasks follows the free resources of the cluster. */
export interface ElasticStatus {
  readonly role: string;
  /** Number of tasks of the role in the current generation; 0 while a generation is being formed. */
  readonly running: number;
  readonly least: number;
  readonly most: number;
}

/** The process of the ApplicationMaster. */
export interface MasterStatus {
  readonly node: string;
  readonly rssBytes: number;
  readonly cpuCores: number;
  /** Delay of its timers (99th percentile of the last minute), ms. */
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
  /** ms since the last heartbeat; null before the first. */
  readonly silentMs: number | null;
  /** How the task's newest program ended; null while the program runs. */
  readonly exit: ProgramEnd | null;
  /** The newest failure; null if the task has not failed. */
  readonly failure: TaskFailure | null;
}

/** Mean utilisation of the task's GPUs, 0..1; null without GPUs. */
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

/** `launching` begins when YARN allocates the task's container. */
export type TaskState = (typeof TASK_STATES)[number];

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
   * Cause and next step, in one or two sentences, which YARN shows as diagnostics. After a success: why training ended early, or empty.
   */
  readonly diagnostics: string;
}

/** One line of the history's events.jsonl. */
export interface HistoryEntry {
  readonly at: number;
  readonly event: string;
  readonly role?: string;
  readonly index?: number;
  /** Number of the task's container, counted from 1. */
  readonly attempt?: number;
  readonly generation?: number;
  readonly containerId?: string;
  readonly node?: string;
  /** `program-ended`: how the program ended. */
  readonly exit?: ProgramEnd;
  /** `task-failed`, `failure-corrected`: why the task failed, and whether the failure counts. */
  readonly failure?: TaskFailure;
  /** `executor-registered`: the state of its program. */
  readonly phase?: 'idle' | 'running' | 'ended';
  /** `generation-started`: why the previous generation ended. */
  readonly reason?: string;
  /** `job-finished`: how the job ended; `detail` is the message. */
  readonly result?: JobResult['state'];
  /** Text for users. */
  readonly detail?: string;
}

/** One line of the history's metrics-N.jsonl: resource usage of all running tasks at one time. */
export interface UsageSample {
  /** ms since the epoch. */
  readonly at: number;
  readonly tasks: readonly TaskUsageSample[];
}

export interface TaskUsageSample {
  /** `worker:0`. */
  readonly task: string;
  readonly step: number;
  readonly rssBytes: number;
  readonly cpuCores: number;
  /** Mean over the task's GPUs, from 0 to 1; null without GPUs. */
  readonly gpuUtilization: number | null;
  readonly gpuMemoryBytes: number | null;
}
