import type { Role } from '../../conf/job.ts';
import type { HistoryEntry, JobResult, Usage } from '../../conf/status.ts';
import type { ContainerEnd } from '../../conf/task-failure.ts';
import type { Notice } from '../../protos/executor-protocol.ts';
import type { Member } from '../../training/process/task-context.ts';
import type { Generation, Revision } from './counters.ts';
import type { Snapshot } from './snapshot-format.ts';

/** A container as allocated by the negotiator. `id` is YARN's text form and is never reused. */
export interface Container {
  readonly id: string;
  /** The role whose request the container answers. */
  readonly role: string;
  /** host:port of its NodeManager. */
  readonly node: string;
  /** host:port of the NodeManager's web server, for logs; empty in local mode. */
  readonly nodeHttp: string;
  readonly memoryMb: number;
}

export interface ProgramExit {
  readonly generation: Generation;
  /** -1 if a signal ended the program. */
  readonly code: number;
  readonly signal: string;
  readonly stderrTail: string;
}

export interface Progress {
  readonly step: number;
  readonly metrics: Readonly<Record<string, number>>;
  readonly checkpointStep: number;
  readonly lostRank: number | null;
  readonly notices: readonly Notice[];
  /** Set if training ends before its last epoch. */
  readonly earlyEnd: { readonly step: number; readonly reason: string } | null;
  /** True once the program has taken its last training step. */
  readonly ending: boolean;
}

/** Limits of the site file that apply to a running job. */
export interface JobLimits {
  readonly timeout: TimeLimit | null;
  readonly idle: TimeLimit | null;
  /** False if an elastic job must not grow beyond its current tasks. */
  readonly mayGrow: boolean;
}

export interface TimeLimit {
  readonly ms: number;
  /** Path of the setting in the site file. */
  readonly path: string;
}

/** An input of the job machine. `now` is in ms since the epoch, from a clock that is monotonic within an attempt. */
export type Event = { readonly now: number } & (
  | {
      /** The ResourceManager has registered this attempt. Survivors are containers of the previous attempt that are still running. */
      readonly type: 'registered';
      readonly maximum: Readonly<Record<string, number>>;
      readonly resourceTypes: readonly string[];
      readonly queue: string;
      readonly survivors: readonly Container[];
    }
  | { readonly type: 'allocated'; readonly containers: readonly Container[] }
  | { readonly type: 'ask-refused'; readonly role: string; readonly message: string }
  | { readonly type: 'launch-failed'; readonly containerId: string; readonly message: string }
  | {
      readonly type: 'container-ended';
      readonly containerId: string;
      readonly end: ContainerEnd;
      readonly exitStatus: number;
      readonly diagnostics: string;
    }
  | {
      readonly type: 'hello';
      readonly containerId: string;
      readonly role: string;
      readonly index: number;
      readonly generation: Generation;
      readonly phase: 'idle' | 'running' | 'ended';
      readonly host: string;
      readonly port: number;
      readonly exit: ProgramExit | null;
    }
  | { readonly type: 'ready'; readonly containerId: string; readonly generation: Generation; readonly port: number }
  | { readonly type: 'started'; readonly containerId: string; readonly generation: Generation; readonly pid: number }
  | {
      readonly type: 'heartbeat';
      readonly containerId: string;
      readonly generation: Generation;
      readonly usage: Usage | null;
      readonly progress: Progress | null;
    }
  | { readonly type: 'exited'; readonly containerId: string; readonly exit: ProgramExit }
  | { readonly type: 'stream-lost'; readonly containerId: string }
  /** The executor's last message: no process of its program is left. */
  | { readonly type: 'left'; readonly containerId: string }
  /** The cluster has announced that it will preempt these containers for another application. */
  | { readonly type: 'preempting'; readonly containerIds: readonly string[] }
  /** The snapshot of this revision is durable and supersedes all earlier ones. Actions that waited for the revision may start. */
  | { readonly type: 'persisted'; readonly revision: Revision }
  /** Cluster size and headroom, used to explain why a gang is waiting. */
  | { readonly type: 'cluster'; readonly nodes: number; readonly headroom: Readonly<Record<string, number>> }
  /** The job must not request containers yet, for example because other jobs use the quota. The reason is empty until it is known. */
  | { readonly type: 'held'; readonly reason: string }
  | { readonly type: 'admitted' }
  /** The admin's current limits for a running job. */
  | { readonly type: 'limits'; readonly limits: JobLimits }
  /** The admin's limits do not permit the job. */
  | { readonly type: 'refused'; readonly reason: string }
  | { readonly type: 'kill'; readonly reason: string }
  | { readonly type: 'tick' }
);

/** An event before the time is added to it. */
export type UntimedEvent = Event extends infer Each ? (Each extends Event ? Omit<Each, 'now'> : never) : never;

/** A report of an executor. */
export type ExecutorEvent = Extract<Event, { type: 'hello' | 'ready' | 'started' | 'heartbeat' | 'exited' | 'stream-lost' | 'left' }>;

/** An output of the job machine. Actions are carried out in order, without waiting for their results. */
export type Action =
  /** Sets the number of containers still wanted for the role, on any node except the excluded ones. It replaces the previous request. */
  | { readonly type: 'ask'; readonly role: Role; readonly count: number; readonly excludedNodes: readonly string[] }
  /** Returns a container that was never launched. */
  | { readonly type: 'release'; readonly containerId: string }
  | { readonly type: 'launch'; readonly containerId: string; readonly role: string; readonly index: number }
  /** Stops a launched container through its NodeManager. */
  | { readonly type: 'stop-container'; readonly containerId: string }
  | { readonly type: 'prepare'; readonly containerId: string; readonly generation: Generation }
  | { readonly type: 'start'; readonly containerId: string; readonly generation: Generation; readonly members: readonly Member[] }
  /** Orders the program of this generation, through its executor, to store a checkpoint at once. */
  | { readonly type: 'order-checkpoint'; readonly containerId: string; readonly generation: Generation }
  /** Orders the executor to end its program and exit. `atOnce`: without the grace period for a final checkpoint. */
  | { readonly type: 'stop-program'; readonly containerId: string; readonly reason: string; readonly atOnce: boolean }
  | { readonly type: 'persist'; readonly snapshot: Snapshot }
  | { readonly type: 'record'; readonly entry: HistoryEntry }
  /** Emitted once. */
  | { readonly type: 'finish'; readonly result: JobResult };
