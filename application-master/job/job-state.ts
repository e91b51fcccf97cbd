import type { FrozenJob, Job, Role } from '../../conf/job.ts';
import { isTaskOver, type JobResult, type TaskState, type Usage } from '../../conf/status.ts';
import type { FirstFailure, ProgramEnd, TaskFailure } from '../../conf/task-failure.ts';
import type { Notice } from '../../protos/executor-protocol.ts';
import type { Member } from '../../training/process/task-context.ts';
import { type Generation, next, type Revision } from './counters.ts';
import type { Container, JobLimits, ProgramExit } from './events.ts';

/** The complete state of the job machine. It is immutable: `step` derives a new state from the old one. */
export interface JobState {
  readonly frozen: FrozenJob;
  readonly attempt: number;
  /** True for an attempt that continues from the snapshot of an earlier attempt. */
  readonly restored: boolean;
  readonly startedAt: number;
  readonly now: number;
  /** The earliest time from which an executor's silence counts, because the ApplicationMaster itself was stalled until then. */
  readonly heardFloor: number;
  /** When a program last used CPU or GPU, or reported progress. */
  readonly busyAt: number;
  readonly admission: Admission;
  readonly cluster: ClusterState;
  readonly requests: ContainerRequests;
  /** The highest generation that may have been started. While the gang is forming, the generation being formed is the next one. */
  readonly generation: Generation;
  /** Null if no role of the job runs in the gang. */
  readonly gang: Gang | null;
  /** Ordered by role and index. The position of a task in this array is its `slot`. */
  readonly tasks: readonly Task[];
  /** Container ID to slot of its task. A container that is not listed here is not part of the job. */
  readonly byContainer: ReadonlyMap<string, number>;
  /** Containers that were ordered to stop and whose end is not confirmed yet. */
  readonly ending: ReadonlyMap<string, Ending>;
  /** Revision of the newest snapshot, and of the newest snapshot that is durable. */
  readonly revisions: { readonly newest: Revision; readonly durable: Revision };
  readonly firstFailure: { readonly failure: FirstFailure; readonly containerId: string | null } | null;
  readonly training: TrainingReports;
  /** How the job ends; null until that is decided. */
  readonly decision: Decision | null;
}

/** What the admin's quotas and limits permit. */
export interface Admission {
  /** Why the job must not request containers yet; empty until the reason is known; null if the job may request containers. */
  readonly held: string | null;
  readonly limits: JobLimits;
}

/** The cluster, as the ResourceManager has reported it. */
export interface ClusterState {
  /** Null until the ResourceManager has registered this attempt. No containers are requested before that. */
  readonly registration: Registration | null;
  /** The number of nodes; 1 until it is reported. */
  readonly nodes: number;
  readonly headroom: Readonly<Record<string, number>>;
  /** Nodes that ran containers of the job and that the cluster has lost. A node is removed when the job gets a new container on it. */
  readonly lostNodes: ReadonlySet<string>;
}

export interface ContainerRequests {
  /** The latest request to the negotiator, by role. */
  readonly asks: ReadonlyMap<string, Ask>;
  /** The ResourceManager's message when it refused the request of a role, by role. */
  readonly refusals: ReadonlyMap<string, string>;
}

/** Reports of programs about the training as a whole. */
export interface TrainingReports {
  /** Metrics from an earlier attempt. */
  readonly metrics: Readonly<Record<string, number>>;
  readonly checkpointStep: number;
  readonly notices: readonly TaskNotice[];
  /** Why training in this generation ends before its last epoch, for the job's final diagnostics; null without an early end. */
  readonly earlyEnd: string | null;
}

export interface Decision {
  /** Set once and never changed. */
  readonly result: JobResult;
  readonly at: number;
  /** Revision of the first snapshot that contains the result. */
  readonly revision: Revision;
  /** When the stop orders were sent; null before that. */
  readonly stoppedAt: number | null;
  readonly finished: boolean;
}

/** A message for the user that a program of the job reported. */
export interface TaskNotice extends Notice {
  /** `worker:1` */
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
  /** When this request was first sent. No container has been allocated since. */
  readonly since: number;
}

export interface Gang {
  /**
   * - `forming`: generation + 1 is waiting for its members.
   * - `started`: `generation` is running.
   * - `reattaching`: a later attempt waits until the executors have reattached and reported whether `generation` is running.
   */
  readonly phase: 'forming' | 'started' | 'reattaching';
  /** When the current phase or round of forming began. */
  readonly since: number;
  /** Rounds in a row that timed out. */
  readonly rounds: number;
  /** No containers are requested before this time. */
  readonly notBefore: number;
  /** Revision of the snapshot that stores the generation being formed with its members; null until the members are chosen. */
  readonly claimRevision: Revision | null;
  /** Generations in a row that failed before they wrote a checkpoint or ran for `LIMITS.fruitfulMs`. */
  readonly fruitless: number;
  /** Step of the newest checkpoint when `generation` started. */
  readonly startedFrom: number;
  /** The member list sent to the members of `generation`. A repeated start order sends the same list. */
  readonly members: readonly Member[];
  /** The failure that ended a generation. Until `until`, further failures of that generation's tasks count as consequences. */
  readonly incident: { readonly generation: Generation; readonly until: number } | null;
  /** Why the generation is formed, for the history; empty for the first generation. */
  readonly why: string;
  /** Elastic jobs: when enough members became ready. The gang waits briefly for others from then on. Null while too few are ready. */
  readonly enoughSince: number | null;
  /** Growths in a row. The pause before the next growth doubles with each. */
  readonly growths: number;
  /** When the newest checkpoint was reported. */
  readonly checkpointAt: number | null;
}

export interface Task {
  readonly slot: number;
  readonly role: Role;
  readonly index: number;
  /** The rank in the newest claimed or started generation; null without a rank. */
  readonly rank: number | null;
  readonly state: TaskState;
  readonly container: TaskContainer | null;
  /** Null until the executor in the container sends its Hello. */
  readonly executor: Executor | null;
  /** Containers allocated to the task so far. */
  readonly attempts: number;
  readonly failures: TaskFailures;
  readonly wait: Wait;
  /** Generation of the task's newest program. */
  readonly generation: Generation;
  /** The end of the task's newest program. */
  readonly exit: ProgramEnd | null;
  /** The last report of the task's programs. */
  readonly progress: { readonly step: number; readonly metrics: Readonly<Record<string, number>> };
}

/** The container that a task holds. */
export interface TaskContainer extends Container {
  /** Revision of the first snapshot that contains the container. */
  readonly savedRevision: Revision;
  /** A succeeded task keeps its container until the snapshot of this revision is durable. Null for other tasks. */
  readonly leaveRevision: Revision | null;
  /** Deadline for this container's executor to reattach to a later attempt; null if the attempt is not waiting for it. */
  readonly reattachBy: number | null;
}

export interface TaskFailures {
  /** Failures charged to the restart budget. */
  readonly charged: number;
  /** Failures that are not charged: caused by the cluster or by the failure of another task. */
  readonly free: number;
  /** Failures in a row before a program was started. */
  readonly unstarted: number;
  /** TensorBoard only: failures in a row. */
  readonly inARow: number;
  readonly newest: TaskFailure | null;
  /** Message of the newest failed launch. */
  readonly launch: string | null;
  /** The nodes of failures that a faulty node may have caused, one entry per failure. */
  readonly nodes: readonly string[];
}

/** A task's wait for a container and its executor. */
export interface Wait {
  readonly since: number;
  /** Number of waits that timed out. Counted only for tasks that restart without the gang. */
  readonly rounds: number;
  /** The earliest time of the next request. */
  readonly notBefore: number;
  /** True while the task's container is requested and not yet allocated. */
  readonly asked: boolean;
}

export interface Executor {
  /** True while the executor's stream is open. */
  readonly attached: boolean;
  readonly host: string;
  readonly port: number;
  /** Generation that the port was bound for; 0 if no program has used it yet. */
  readonly portFor: Generation;
  readonly lastHeard: number;
  readonly stoppedSince: number | null;
  readonly awaiting: { readonly answer: 'ready' | 'started'; readonly since: number } | null;
  readonly program: Program | null;
  /** Newest generation in which the executor ran a program; 0 if it has run none. */
  readonly ranIn: Generation;
  /** True if a program of any generation may be running in the executor. */
  readonly mayRun: boolean;
  /** The rank that the program reports as lost, and when it was reported. */
  readonly lostRank: { readonly rank: number; readonly since: number } | null;
  /** True once the program has taken its last training step. */
  readonly ending: boolean;
  /** A failed exit whose evaluation is deferred to `until`, because its cause may be reported elsewhere. */
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
  /** -1 if unknown: the container may belong to any task of the role. */
  readonly index: number;
  readonly node: string;
  readonly since: number;
  /** The program may keep running until this time, when the executor's lease has ended. 0 if no program can be running. */
  readonly until: number;
  /** True while the executor's stream is open. */
  readonly attached: boolean;
  /**
   * The ResourceManager's report about the container's end. The container's processes may still be running after such a report: the
   * ResourceManager only presumes the end, or the NodeManager has not yet killed a preempted container.
   */
  readonly reported: 'nothing' | 'presumed' | 'preempted';
  /** When to send the next stop order to the cluster. */
  readonly stopAt: number;
  /** True if the container was stopped at the end of the job. The job waits briefly for such containers to end. */
  readonly drains: boolean;
  /** True if the failure was charged, but the cluster may still report that it caused the failure. */
  readonly refundable: boolean;
}

/** Limits of a job that are not configurable. */
export const LIMITS = {
  /** How many times forming the gang, or waiting for a single task, may time out before the job fails. */
  rounds: 3,
  /**
   * A task is not restarted after `unstarted` consecutive failures in which no program was started, or after `freeFailures` uncharged
   * failures in total.
   */
  unstarted: 10,
  freeFailures: 200,
  /** Failures on a node after which a role excludes the node. */
  failuresPerNode: 2,
  /** A generation that ran this long counts as productive, even without a new checkpoint. */
  fruitfulMs: 10 * 60_000,
  /**
   * How long a gang with enough ready members waits for members that already have a container (`arrivingMs`), and for members that may
   * still get one (`moreMs`).
   */
  arrivingMs: 20_000,
  moreMs: 3_000,
  /** Minimum run time of an elastic generation before it grows. It doubles with each growth, up to `longestGrowMs`. */
  growMs: 10_000,
  longestGrowMs: 5 * 60_000,
  /**
   * An elastic job requests extra containers only during the first `growAskMs` of each `growAskEveryMs`: on a full cluster, YARN would
   * otherwise reserve room for a permanent request.
   */
  growAskMs: 8_000,
  growAskEveryMs: 30_000,
  /** Time without a container after which a request no longer excludes nodes. */
  choosyMs: 30_000,
  /** How long another task waits for a container before TensorBoard or an idle elastic task returns its container. */
  yieldMs: 15_000,
  /** Run time after which TensorBoard counts as stable. */
  tensorBoardSteadyMs: 2 * 60_000,
  /** Longest pause before a restart of TensorBoard. */
  tensorBoardPauseMs: 60_000,
  /** How long to wait, at the end of the job, for its result to be saved. */
  saveMs: 30_000,
  /** How long to wait, after the result is saved, for programs to end. */
  drainMs: 5_000,
  /** How long an executor may take to exit before the cluster is ordered to stop its container. */
  leaveMs: 10_000,
  /** The pause between repeated stop orders. */
  stopAgainMs: 30_000,
  /** A NodeManager kills a preempted container at its next heartbeat. */
  preemptedMs: 10_000,
  /**
   * After this time, a container that was ordered to stop is dropped from the state: by default, YARN declares a silent node lost, and
   * reports the end of its containers, within 10 minutes.
   */
  forgetMs: 15 * 60_000,
  /** How long the job waits for the cluster to report the cause of a death by a signal, if that death would end the job. */
  truthMs: 3_000,
  /** How long a later attempt waits for a report on a container that the cluster no longer lists. */
  unlistedMs: 10_000,
  stderrBytes: 2_048,
  textBytes: 1_024,
  notices: 20,
  metrics: 200,
} as const;

export function jobOf(state: JobState): Job {
  return state.frozen.job;
}

/** The generation that messages from gang tasks must have now. */
export function currentGeneration(state: JobState): Generation {
  return state.gang?.phase === 'forming' ? next(state.generation) : state.generation;
}

export function nameOf(task: { readonly role: Role; readonly index: number }): string {
  return `${task.role.name}:${task.index}`;
}

export function isOver(task: Task): boolean {
  return isTaskOver(task.state);
}

/** True if the executor is attached and idle and its port can be given to a program of `generation`. */
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
