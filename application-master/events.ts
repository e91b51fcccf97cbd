import type { Role } from '../conf/job.ts';
import type { HistoryEntry, JobResult, TaskState, Usage } from '../conf/status.ts';
import type { ContainerEnd } from '../hadoop/container-exit.ts';
import type { Member } from '../training/task-context.ts';

/** A container as the negotiator hands it out. `id` is YARN's text form, unique for ever. */
export interface Container {
  readonly id: string;
  /** The role whose ask it answers. */
  readonly role: string;
  /** host:port of its NodeManager. */
  readonly node: string;
  /** host:port of the NodeManager's web server, for logs; empty in local mode. */
  readonly nodeHttp: string;
  readonly memoryMb: number;
}

export interface ProgramExit {
  readonly generation: number;
  /** -1 when a signal ended it. */
  readonly code: number;
  readonly signal: string;
  readonly stderrTail: string;
}

export interface Progress {
  readonly step: number;
  readonly metrics: Readonly<Record<string, number>>;
  readonly checkpointStep: number;
  readonly lostRank: number | null;
  readonly notices: readonly string[];
  /** Training ends before its last epoch. */
  readonly earlyEnd: { readonly step: number; readonly reason: string } | null;
  /** Its last step is taken. */
  readonly ending: boolean;
}

/** Limits of the site file that a running job meets. */
export interface JobLimits {
  readonly timeout: TimeLimit | null;
  readonly idle: TimeLimit | null;
  /** No more tasks than there are, whatever room there is. */
  readonly mayGrow: boolean;
}

export interface TimeLimit {
  readonly ms: number;
  /** Where the site file sets it. */
  readonly path: string;
}

/** What happens to a job. `now` is ms since the epoch, of a clock that is made never to go back within an attempt. */
export type Event = { readonly now: number } & (
  | {
      /** The resource manager knows this attempt. Survivors are containers of the attempt before that still live. */
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
      readonly generation: number;
      readonly phase: 'idle' | 'running' | 'ended';
      readonly host: string;
      readonly port: number;
      readonly exit: ProgramExit | null;
    }
  | { readonly type: 'ready'; readonly containerId: string; readonly generation: number; readonly port: number }
  | { readonly type: 'started'; readonly containerId: string; readonly generation: number; readonly pid: number }
  | {
      readonly type: 'heartbeat';
      readonly containerId: string;
      readonly generation: number;
      readonly usage: Usage | null;
      readonly progress: Progress | null;
    }
  | { readonly type: 'exited'; readonly containerId: string; readonly exit: ProgramExit }
  | { readonly type: 'stream-lost'; readonly containerId: string }
  /** The snapshot of this revision is durable, and with it every earlier one is out of date: what waited for it may start. */
  | { readonly type: 'persisted'; readonly generation: number; readonly revision: number }
  /** What the cluster says about room, for the sentence that tells why a gang waits. */
  | { readonly type: 'cluster'; readonly nodes: number; readonly headroom: Readonly<Record<string, number>> }
  /** Nothing may be asked for as yet: what other jobs have leaves too little. The reason is empty before it has been looked at. */
  | { readonly type: 'held'; readonly reason: string }
  | { readonly type: 'admitted' }
  /** What the admin allows a job that runs, as of now. */
  | { readonly type: 'limits'; readonly limits: JobLimits }
  /** The admin's limits do not allow the job. */
  | { readonly type: 'refused'; readonly reason: string }
  | { readonly type: 'kill'; readonly reason: string }
  | { readonly type: 'tick' }
);

/** What the job machine wants done. Carried out in order; none is awaited. */
export type Action =
  /** Absolute: so many containers of the role are still wanted, on any node but the excluded. */
  | { readonly type: 'ask'; readonly role: Role; readonly count: number; readonly excludedNodes: readonly string[] }
  /** Give back a container that was never launched. */
  | { readonly type: 'release'; readonly containerId: string }
  | { readonly type: 'launch'; readonly containerId: string; readonly role: string; readonly index: number }
  /** End a launched container through its NodeManager. */
  | { readonly type: 'stop-container'; readonly containerId: string }
  | { readonly type: 'prepare'; readonly containerId: string; readonly generation: number }
  | { readonly type: 'start'; readonly containerId: string; readonly generation: number; readonly members: readonly Member[] }
  /** Tell the executor to end its program and itself. */
  | { readonly type: 'stop-program'; readonly containerId: string; readonly reason: string }
  | { readonly type: 'persist'; readonly snapshot: Snapshot }
  | { readonly type: 'record'; readonly entry: HistoryEntry }
  /** Decided once. */
  | { readonly type: 'finish'; readonly result: JobResult };

/** What attempt 2 of the ApplicationMaster needs to go on; JSON. */
export interface Snapshot {
  readonly version: 1;
  /** Counts the snapshots of an attempt; a higher one replaces a lower one. */
  readonly revision: number;
  /** The highest generation that may have been started once this snapshot is durable. */
  readonly generation: number;
  readonly startedAt: number;
  readonly tasks: readonly SnapshotTask[];
  /** Containers that were told to end and whose end is not known yet. */
  readonly ending: readonly SnapshotEnding[];
  readonly firstFailure: string | null;
  /** Generations in a row that a failure ended before they had got anywhere. */
  readonly fruitless: number;
  readonly metrics: Readonly<Record<string, number>>;
  readonly earlyEnd: string | null;
  readonly result: JobResult | null;
}

export interface SnapshotTask {
  readonly role: string;
  readonly index: number;
  readonly state: TaskState;
  /** In `generation` of the snapshot; null for who has none there. */
  readonly rank: number | null;
  /** Of the program that ended, for a task that has succeeded. */
  readonly generation: number;
  readonly containerId: string | null;
  readonly node: string | null;
  readonly attempts: number;
  /** Failures that cost budget. */
  readonly failures: number;
  readonly failedNodes: readonly string[];
  readonly exitCode: number | null;
}

export interface SnapshotEnding {
  readonly containerId: string;
  readonly role: string;
  readonly index: number;
  /** From then on the lease of its executor is over, whatever became of it. */
  readonly until: number;
  /** The failure that led to it was charged; the cluster may yet say that it was to blame. */
  readonly refundable: boolean;
}
