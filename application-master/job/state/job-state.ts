import type { FrozenJob, Job, Role } from '../../../conf/job.ts';
import { isTaskOver, type JobResult, type TaskState, type Usage } from '../../../conf/status/status.ts';
import type { FirstFailure, ProgramEnd, TaskFailure } from '../../../conf/status/task-failure.ts';
import type { Notice } from '../../../protos/executor-protocol.ts';
import type { Member } from '../../../training/process/task-context.ts';
import { type Generation, next, type Revision } from './counters.ts';
import type { Container, JobLimits, ProgramExit } from './events.ts';

/** The complete, immutable state of the job machine. `step` derives a new state from it. */
export interface JobState {
  readonly frozen: FrozenJob;
  readonly attempt: number;
  /** True if this attempt continues from a snapshot of an earlier attempt. */
  readonly restored: boolean;
  readonly startedAt: number;
  readonly now: number;
  /** Ignore executor silence before this time: the ApplicationMaster itself was stalled until then. */
  readonly heardFloor: number;
  /** Time at which a program last used CPU or GPU, or reported progress. */
  readonly busyAt: number;
  readonly admission: Admission;
  readonly cluster: ClusterState;
  readonly requests: ContainerRequests;
  /** The highest generation that may have been started. The forming gang will become the next generation. */
  readonly generation: Generation;
  /** Null if no role of the job belongs to the gang. */
  readonly gang: Gang | null;
  /** Ordered by role and index. The `slot` of a task is its position in this array. */
  readonly tasks: readonly Task[];
  /** Maps container IDs to task slots. No other containers belong to the job. */
  readonly byContainer: ReadonlyMap<string, number>;
  /** Containers that have been told to stop but are not yet confirmed to have stopped. */
  readonly ending: ReadonlyMap<string, Ending>;
  /** The time at which the last task of a role ended, for each role that another role's `endAfter` names. */
  readonly roleEnds: ReadonlyMap<string, number>;
  readonly revisions: { readonly newest: Revision; readonly durable: Revision };
  readonly firstFailure: { readonly failure: FirstFailure; readonly containerId: string | null } | null;
  readonly training: TrainingReports;
  /** The result of the job; null while the job continues. */
  readonly decision: Decision | null;
}

export interface Admission {
  /** Reason why the job must not request containers yet. Empty if the reason is unknown, and null if the job may request containers. */
  readonly held: string | null;
  readonly limits: JobLimits;
}

export interface ClusterState {
  /** Null until the ResourceManager has registered this attempt. The job cannot request containers before the registration. */
  readonly registration: Registration | null;
  readonly nodes: number;
  readonly headroom: Readonly<Record<string, number>>;
  /** Lost nodes with earlier containers of the job. A node is removed from this set when the job gets a new container on it. */
  readonly lostNodes: ReadonlySet<string>;
}

export interface ContainerRequests {
  readonly asks: ReadonlyMap<string, Ask>;
  /** The ResourceManager's refusal message, keyed by role. */
  readonly refusals: ReadonlyMap<string, string>;
}

export interface TrainingReports {
  readonly metrics: Readonly<Record<string, number>>;
  readonly checkpointStep: number;
  readonly notices: readonly TaskNotice[];
  /** Reason why training ends before its last epoch, for the final diagnostics; null if it does not end early. */
  readonly earlyEnd: string | null;
}

export interface Decision {
  readonly result: JobResult;
  readonly at: number;
  /** Revision of the first snapshot that contains the result. */
  readonly revision: Revision;
  /** Time of the stop orders; null before that. */
  readonly stoppedAt: number | null;
  readonly finished: boolean;
}

export interface TaskNotice extends Notice {
  /** `worker:1`, whose program reported it; empty for a message about the whole job. */
  readonly task: string;
}

export interface Registration {
  readonly maximum: Readonly<Record<string, number>>;
  readonly resourceTypes: readonly string[];
  readonly queue: string;
}

export interface Ask {
  readonly count: number;
  readonly excludedNodes: readonly string[];
  /** Time of the first identical request. No container has been allocated since then. */
  readonly since: number;
}

export interface Gang {
  /**
   * - `forming`: generation + 1 is waiting for its members.
   * - `started`: `generation` is running.
   * - `reattaching`: a later attempt waits for the executors to reattach and to report whether `generation` is running.
   */
  readonly phase: 'forming' | 'started' | 'reattaching';
  /** Start time of the current phase or forming round. */
  readonly since: number;
  readonly rounds: number;
  readonly notBefore: number;
  /** Revision of the snapshot that contains the next generation and its members; null until the members are selected. */
  readonly claimRevision: Revision | null;
  /** Number of consecutive generations that failed without a new checkpoint before they had run for `LIMITS.fruitfulMs`. */
  readonly fruitless: number;
  /** Step of the newest checkpoint at the start of `generation`. */
  readonly startedFrom: number;
  /** The member list sent to the members of `generation`. Repeated start orders contain the same list. */
  readonly members: readonly Member[];
  /** The failure that ended a generation. Until `until`, further failures of that generation's tasks are considered consequences. */
  readonly incident: { readonly generation: Generation; readonly until: number } | null;
  /** Reason to form the generation, for the history; empty for the first generation. */
  readonly why: string;
  /** Elastic jobs: time at which enough members were ready. The gang then waits briefly for more members. Null while there are too few. */
  readonly enoughSince: number | null;
  /** Number of consecutive growths. Each growth doubles the pause before the next. */
  readonly growths: number;
  readonly checkpointAt: number | null;
}

export interface Task {
  readonly slot: number;
  readonly role: Role;
  readonly index: number;
  /** Rank in the newest claimed or started generation; null if the task has no rank. */
  readonly rank: number | null;
  readonly state: TaskState;
  readonly container: TaskContainer | null;
  /** Null until the executor sends its Hello. */
  readonly executor: Executor | null;
  readonly attempts: number;
  readonly failures: TaskFailures;
  readonly wait: Wait;
  readonly generation: Generation;
  readonly exit: ProgramEnd | null;
  /** Time at which the newest program started. Null until one has started. */
  readonly startedAt: number | null;
  readonly progress: { readonly step: number; readonly total: number; readonly metrics: Readonly<Record<string, number>> };
}

export interface TaskContainer extends Container {
  /** Revision of the first snapshot that contains the container. */
  readonly savedRevision: Revision;
  /** A succeeded task keeps its container until the snapshot with this revision is durable. Null for other tasks. */
  readonly leaveRevision: Revision | null;
  /** Deadline for the executor to reattach to a later attempt; null if the attempt is not waiting for it. */
  readonly reattachBy: number | null;
}

export interface TaskFailures {
  readonly charged: number;
  /** Number of failures that are not charged, because the cluster or another task's failure caused them. */
  readonly free: number;
  /** Number of consecutive failures before a program was started. */
  readonly unstarted: number;
  /** Number of consecutive failures; used only for TensorBoard. */
  readonly inARow: number;
  readonly newest: TaskFailure | null;
  readonly launch: string | null;
  /** Nodes on which failures occurred that a faulty node may have caused; one entry per failure. */
  readonly nodes: readonly string[];
}

export interface Wait {
  readonly since: number;
  /** Number of waits that timed out. Counted only for tasks that restart without the gang. */
  readonly rounds: number;
  readonly notBefore: number;
  readonly asked: boolean;
  /** True until the roles for which the task waits (`after`) have reached their states. */
  readonly held: boolean;
}

export interface Executor {
  /** True while the executor's stream is open. */
  readonly attached: boolean;
  readonly host: string;
  readonly port: number;
  /** Generation for which the port was bound; 0 for an unused port. */
  readonly portFor: Generation;
  readonly lastHeard: number;
  readonly stoppedSince: number | null;
  readonly awaiting: { readonly answer: 'ready' | 'started'; readonly since: number } | null;
  readonly program: Program | null;
  /** Newest generation in which the executor ran a program; 0 for none. */
  readonly ranIn: Generation;
  /** True if the executor may be running a program of any generation. */
  readonly mayRun: boolean;
  /** The rank that the program reported as lost, and the time of the report. */
  readonly lostRank: { readonly rank: number; readonly since: number } | null;
  /** True after the program's last training step. */
  readonly ending: boolean;
  /** A failed exit. Its evaluation is deferred to `until`, because another report may reveal the cause. */
  readonly pendingExit: { readonly exit: ProgramExit; readonly until: number } | null;
  readonly usage: Usage | null;
}

export interface Program {
  readonly generation: Generation;
  readonly phase: 'starting' | 'running' | 'ended';
}

export interface Ending {
  readonly containerId: string;
  readonly role: string;
  /** Index of the task; -1 if the container may belong to any task of the role. */
  readonly index: number;
  readonly node: string;
  readonly since: number;
  /** The program may run until this time, when the executor's lease ends. 0 if no program can be running. */
  readonly until: number;
  readonly attached: boolean;
  /**
   * The kind of report received from the ResourceManager. The container's processes may still be running after a report: either the
   * ResourceManager only presumes the end, or the NodeManager has not killed the preempted container yet.
   */
  readonly reported: 'nothing' | 'presumed' | 'preempted';
  readonly stopAt: number;
  /** True if the container was stopped at the end of the job. The job waits briefly for the end of such containers. */
  readonly drains: boolean;
  /** True for a charged failure for which the cluster may still report a different cause. */
  readonly refundable: boolean;
}

/** Job limits that cannot be configured. */
export const LIMITS = {
  /** The job fails after this many timeouts, whether of the forming gang or of a single task. */
  rounds: 3,
  /**
   * A task fails permanently after `unstarted` consecutive failures before its program started, or after `freeFailures` uncharged failures
   * in total.
   */
  unstarted: 10,
  freeFailures: 200,
  /** A role excludes a node after this number of failures on it. */
  failuresPerNode: 2,
  /** A generation that ran this long is considered productive, even without a new checkpoint. */
  fruitfulMs: 10 * 60_000,
  /**
   * How long a gang with enough ready members waits for further members. `arrivingMs` applies to members that already have a container, and
   * `moreMs` to members that may still get one.
   */
  arrivingMs: 20_000,
  moreMs: 3_000,
  /** Minimum run time of an elastic generation before it grows. Each growth doubles it, up to `longestGrowMs`. */
  growMs: 10_000,
  longestGrowMs: 5 * 60_000,
  /**
   * An elastic job requests extra containers only in the first `growAskMs` of each `growAskEveryMs`. If the request stayed open, YARN would
   * reserve resources for it on a full cluster.
   */
  growAskMs: 8_000,
  growAskEveryMs: 30_000,
  /** A request that waits this long for a container no longer excludes nodes. */
  choosyMs: 30_000,
  /** If another task waits this long for a container, TensorBoard or an idle elastic task returns its container. */
  yieldMs: 15_000,
  /** TensorBoard is considered stable after this run time. */
  tensorBoardSteadyMs: 2 * 60_000,
  tensorBoardPauseMs: 60_000,
  /** Timeout for saving the result at the end of the job. */
  saveMs: 30_000,
  /** How long programs may take to exit after the result has been saved. */
  drainMs: 5_000,
  /** Timeout for an executor to exit. After it, the cluster receives an order to stop the container. */
  leaveMs: 10_000,
  stopAgainMs: 30_000,
  /** Time within which a NodeManager kills a preempted container, at its next heartbeat. */
  preemptedMs: 10_000,
  /**
   * A stopped container is removed from the state after this time. By default, YARN declares a silent node lost within 10 minutes and then
   * reports the end of its containers.
   */
  forgetMs: 15 * 60_000,
  /** If a program's death by a signal would end the job, the job waits this long for the cluster to report the cause. */
  truthMs: 3_000,
  /** How long a later attempt waits for a report on a container that the cluster does not list. */
  unlistedMs: 10_000,
  stderrBytes: 2_048,
  textBytes: 1_024,
  notices: 20,
  metrics: 200,
} as const;

export function jobOf(state: JobState): Job {
  return state.frozen.job;
}

/** Returns the generation that messages from gang tasks must contain. */
export function currentGeneration(state: JobState): Generation {
  return state.gang?.phase === 'forming' ? next(state.generation) : state.generation;
}

export function nameOf(task: { readonly role: Role; readonly index: number }): string {
  return `${task.role.name}:${task.index}`;
}

export function isOver(task: Task): boolean {
  return isTaskOver(task.state);
}

/** Returns true if the task has succeeded, or tony-ts has stopped it after the end of other roles. */
export function hasEnded(task: Task): boolean {
  return task.state === 'succeeded' || task.state === 'stopped';
}

/** Returns true if the executor is attached and idle, and its port is valid for a program of `generation`. */
export function isReady(task: Task, generation: Generation): boolean {
  const executor = task.executor;
  return (
    executor?.attached === true &&
    executor.program === null &&
    executor.port > 0 &&
    executor.awaiting === null &&
    (executor.portFor === 0 || executor.portFor === generation)
  );
}
