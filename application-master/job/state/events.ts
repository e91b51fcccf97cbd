import type { Role } from '../../../conf/job.ts';
import type { HistoryEntry, JobResult, Usage } from '../../../conf/status/status.ts';
import type { Member } from '../../../contract/process/task-context.ts';
import type { ContainerEnd } from '../../../hadoop/yarn/container-exit.ts';
import type { TonyMessages } from '../../../protos/tony-messages.ts';
import type { Generation, Revision } from './counters.ts';
import type { Snapshot } from './snapshot-format.ts';

/** An allocated container. `id` is YARN's container ID, which is never reused. */
export interface Container {
  readonly id: string;
  readonly role: string;
  /** NodeManager address, `host:port`. */
  readonly node: string;
  /** Address of the NodeManager's web server, `host:port`. Empty for a local job. */
  readonly nodeHttp: string;
  readonly memoryMb: number;
}

export interface ProgramExit {
  readonly generation: Generation;
  /** Exit code, or -1 if a signal ended the program. */
  readonly code: number;
  readonly signal: string;
  readonly stderrTail: string;
  /** True if a restart would repeat the failure. */
  readonly permanent: boolean;
  /** Time of the exit on the executor's clock. See `ExecutorClock`. */
  readonly clock?: number;
}

export interface Progress {
  readonly step: number;
  readonly metrics: Readonly<Record<string, number>>;
  readonly checkpointStep: number;
  readonly lostRank: number | null;
  readonly notices: readonly TonyMessages['Notice'][];
  readonly earlyEnd: { readonly step: number; readonly reason: string } | null;
  /** True after the program's last training step. */
  readonly ending: boolean;
  /** Expected number of training steps. 0 or undefined if unknown. */
  readonly total?: number;
}

/** Limits from the site file that apply to a running job. */
export interface RunningJobLimits {
  readonly timeout: TimeLimit | null;
  readonly idle: TimeLimit | null;
  /** False if an elastic job must not add tasks. */
  readonly mayGrow: boolean;
}

export interface TimeLimit {
  readonly ms: number;
  /** The setting's path in the site file. */
  readonly path: string;
}

/** An input to the job machine. `now` is the time in ms since the epoch, and never decreases within an attempt. */
export type Event = { readonly now: number } & (
  | {
      /** The ResourceManager has registered this attempt. `survivors` are the previous attempt's containers that are still running. */
      readonly type: 'registered';
      readonly maximum: Readonly<Record<string, number>>;
      readonly resourceTypes: readonly string[];
      readonly countsAll: boolean;
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
      readonly clock?: number;
    }
  | { readonly type: 'ready'; readonly containerId: string; readonly generation: Generation; readonly port: number }
  | { readonly type: 'started'; readonly containerId: string; readonly generation: Generation; readonly pid: number }
  | {
      readonly type: 'heartbeat';
      readonly containerId: string;
      readonly generation: Generation;
      readonly usage: Usage | null;
      readonly progress: Progress | null;
      /** Time on the executor's clock until which the program has not failed. */
      readonly clock?: number;
    }
  | { readonly type: 'exited'; readonly containerId: string; readonly exit: ProgramExit }
  | { readonly type: 'stream-lost'; readonly containerId: string }
  /** The executor's last message, sent after all of its program's processes have exited. */
  | { readonly type: 'left'; readonly containerId: string }
  | { readonly type: 'preempting'; readonly containerIds: readonly string[] }
  /** A snapshot with this revision has been stored. Actions that wait for the revision can now start. */
  | { readonly type: 'persisted'; readonly revision: Revision }
  | { readonly type: 'cluster'; readonly nodes: number; readonly headroom: Readonly<Record<string, number>> }
  /** The job must not request containers yet, for example because other jobs use up the quota. `reason` is empty until it is known. */
  | { readonly type: 'held'; readonly reason: string }
  | { readonly type: 'admitted' }
  | { readonly type: 'limits'; readonly limits: RunningJobLimits }
  | { readonly type: 'refused'; readonly reason: string }
  /** A report about the delegation tokens. `notice` tells users what to do. If `notice` is null, any earlier notice is removed. */
  | {
      readonly type: 'tokens';
      readonly event: 'tokens-replaced' | 'tokens-failed' | 'tokens-ending';
      readonly detail: string;
      readonly notice: string | null;
    }
  /** The delegation tokens have expired and were not replaced, so the job can no longer use HDFS. */
  | { readonly type: 'tokens-ended'; readonly reason: string }
  | { readonly type: 'kill'; readonly reason: string }
  | { readonly type: 'tick' }
);

/** An event without `now`. */
export type UntimedEvent = Event extends infer Each ? (Each extends Event ? Omit<Each, 'now'> : never) : never;

export type EventFromExecutor = Extract<Event, { type: 'hello' | 'ready' | 'started' | 'heartbeat' | 'exited' | 'stream-lost' | 'left' }>;

/** An output from the job machine. Actions are carried out in order, without waiting for their results. */
export type Action =
  /** Sets the number of containers that the role still needs, on nodes that are not excluded. Replaces the role's previous request. */
  | { readonly type: 'ask'; readonly role: Role; readonly count: number; readonly excludedNodes: readonly string[] }
  | { readonly type: 'release'; readonly containerId: string }
  | { readonly type: 'launch'; readonly containerId: string; readonly role: string; readonly index: number }
  | { readonly type: 'stop-container'; readonly containerId: string }
  | { readonly type: 'prepare'; readonly containerId: string; readonly generation: Generation }
  | { readonly type: 'start'; readonly containerId: string; readonly generation: Generation; readonly members: readonly Member[] }
  /** Orders a program in this generation to store a checkpoint immediately. */
  | { readonly type: 'order-checkpoint'; readonly containerId: string; readonly generation: Generation }
  /** Orders the executor to stop its program and exit. `atOnce` skips the grace period for a final checkpoint. */
  | { readonly type: 'stop-program'; readonly containerId: string; readonly reason: string; readonly atOnce: boolean }
  | { readonly type: 'persist'; readonly snapshot: Snapshot }
  | { readonly type: 'record'; readonly entry: HistoryEntry }
  /** Emitted exactly once. */
  | { readonly type: 'finish'; readonly result: JobResult };
