import type { FrozenJob, Job, Role } from '../../../conf/job.ts';
import { isTaskOver, type JobResult, type TaskState, type Usage } from '../../../conf/status/status.ts';
import type { FirstFailure, ProgramEnd, TaskFailure } from '../../../conf/status/task-failure.ts';
import type { Member } from '../../../contract/process/task-context.ts';
import type { TonyMessages } from '../../../protos/tony-messages.ts';
import { type Generation, next, type Revision } from './counters.ts';
import type { DecisiveTask } from './decisive-task.ts';
import type { Container, ProgramExit, RunningJobLimits } from './events.ts';
import type { ExecutorClock } from './executor-clock.ts';

/** The job machine's complete, immutable state. `step` derives a new state from it. */
export interface MachineState {
  readonly frozen: FrozenJob;
  readonly attempt: number;
  /** True if this attempt continues from a snapshot that an earlier attempt stored. */
  readonly restored: boolean;
  readonly startedAt: number;
  readonly now: number;
  /** Time until which this ApplicationMaster was stalled. If executors were silent before this time, their silence does not count. */
  readonly heardFloor: number;
  /** Time at which a program last used CPU or GPU, or reported progress. */
  readonly busyAt: number;
  readonly admission: Admission;
  readonly cluster: ClusterState;
  readonly requests: ContainerRequests;
  /** Number of the newest generation that may have started. A gang that is still forming will get the next number. */
  readonly generation: Generation;
  /** Null if none of the job's roles belongs to the gang. */
  readonly gang: Gang | null;
  /** Tasks ordered by role and index. A task's `slot` is its position in this array. */
  readonly tasks: readonly Task[];
  /** Maps each container ID to the slot of the task to which the container is assigned. */
  readonly byContainer: ReadonlyMap<string, number>;
  /** Containers that have been ordered to stop but have not been confirmed to have ended. */
  readonly ending: ReadonlyMap<string, Ending>;
  /** The time at which each role named in an `endAfter` option ended. */
  readonly roleEnds: ReadonlyMap<string, number>;
  readonly revisions: { readonly newest: Revision; readonly durable: Revision };
  readonly firstFailure: { readonly failure: FirstFailure; readonly containerId: string | null } | null;
  readonly training: TrainingReports;
  /** The job's result, or null while the job continues. */
  readonly decision: Decision | null;
}

export interface Admission {
  /** Reason why the job must not request containers yet. Empty if the reason is unknown. Null if the job may request containers. */
  readonly held: string | null;
  readonly limits: RunningJobLimits;
}

export interface ClusterState {
  /** Null until the ResourceManager has registered this attempt. Until then, the job cannot request containers. */
  readonly registration: Registration | null;
  readonly nodes: number;
  readonly headroom: Readonly<Record<string, number>>;
  /** Lost nodes on which the job's containers ran. A node is removed from the set when the job gets a new container on that node. */
  readonly lostNodes: ReadonlySet<string>;
}

export interface ContainerRequests {
  readonly asks: ReadonlyMap<string, RoleAsk>;
  /** The ResourceManager's message for each role whose request it refused. */
  readonly refusals: ReadonlyMap<string, string>;
}

export interface TrainingReports {
  readonly metrics: Readonly<Record<string, number>>;
  readonly checkpointStep: number;
  readonly notices: readonly TaskNotice[];
  /** Reason why training ends before its last epoch, or null if training does not end early. */
  readonly earlyEnd: string | null;
}

export interface Decision {
  readonly result: JobResult;
  /** Null if the job did not fail because of a single task. */
  readonly task: DecisiveTask | null;
  readonly at: number;
  /** Revision of the first snapshot that contains the result. */
  readonly revision: Revision;
  /** Time at which stop orders were sent, or null if they have not been sent yet. */
  readonly stoppedAt: number | null;
  readonly finished: boolean;
}

export type TaskNotice = TonyMessages['Notice'] & {
  /** The task whose program sent the notice, for example `worker:1`. Empty for a notice about the whole job. */
  readonly task: string;
};

export interface Registration {
  /** The maximum resources that the cluster allocates to a container, keyed by resource name, such as `memory-mb` or `yarn.io/gpu`. */
  readonly maximum: Readonly<Record<string, number>>;
  readonly resourceTypes: readonly string[];
  /** False if the scheduler takes only memory into account. */
  readonly countsAll: boolean;
  readonly queue: string;
}

export interface RoleAsk {
  readonly count: number;
  readonly excludedNodes: readonly string[];
  /** Time at which the request last changed, for example because a container was allocated. */
  readonly since: number;
}

export interface Gang {
  /**
   * - `forming`: the next generation is waiting for its members.
   * - `started`: `generation` is running.
   * - `reattaching`: this attempt waits until the executors have reported whether `generation` is still running.
   */
  readonly phase: 'forming' | 'started' | 'reattaching';
  /** Time at which the current phase began, or at which the newest attempt to form the gang began. */
  readonly since: number;
  /** How many times in a row the gang was incomplete for `gang.timeout`. */
  readonly rounds: number;
  /** How many times in a row the gang has returned its containers because it was incomplete. */
  readonly returns: number;
  /** Time until which the gang requests no containers. The pause may end earlier, see `resumeEarly`. */
  readonly notBefore: number;
  /** Revision of the snapshot that contains the next generation's members, or null before they are selected. */
  readonly claimRevision: Revision | null;
  /** How many consecutive generations failed early (within `LIMITS.fruitfulMs`) and without a new checkpoint. */
  readonly fruitless: number;
  /** Step of the newest checkpoint at the time when `generation` started. */
  readonly startedFrom: number;
  /** Member list that the members of `generation` received. Repeated start orders contain the same list. */
  readonly members: readonly Member[];
  /**
   * A generation that ended because of a failure. Until the time `until`, other tasks' failures in the generation count as consequences of
   * that failure.
   */
  readonly incident: { readonly generation: Generation; readonly until: number } | null;
  /** Why the newest generation was formed, as shown in the history. Empty for the first generation. */
  readonly why: string;
  /**
   * Time since which an elastic gang has had enough ready members. The gang waits briefly for more members. Null while there are too few.
   */
  readonly enoughSince: number | null;
  /** Number of times in a row that the gang has grown. Each time doubles the pause before the gang grows again. */
  readonly growths: number;
  readonly checkpointAt: number | null;
}

export interface Task {
  readonly slot: number;
  readonly role: Role;
  readonly index: number;
  /** The task's rank in the newest generation that has been selected or started, or null if the task has no rank. */
  readonly rank: number | null;
  readonly state: TaskState;
  readonly container: TaskContainer | null;
  /** The task's newest container, which may have ended, or null if the task has had none. */
  readonly newest: Pick<Container, 'id' | 'node' | 'nodeHttp'> | null;
  /** Null until the executor has sent its Hello. */
  readonly executor: TaskExecutor | null;
  /** Number of containers that the task has had. */
  readonly attempts: number;
  /** How often a program of the task has started. */
  readonly programStarts: number;
  readonly failures: TaskFailures;
  readonly wait: Wait;
  readonly generation: Generation;
  readonly exit: ProgramEnd | null;
  /** Time at which the newest program started, or null if no program has started. */
  readonly startedAt: number | null;
  readonly progress: {
    /** Step from which the program continues. When its generation ends, the steps since the checkpoint are lost. */
    readonly step: number;
    /** Newest step that the program has reported, in any generation. `metrics` are those of this step. */
    readonly reportedStep: number;
    readonly total: number;
    readonly metrics: Readonly<Record<string, number>>;
  };
}

export interface TaskContainer extends Container {
  /** Revision of the first snapshot that contains the container. */
  readonly savedRevision: Revision;
  /** The revision that must be stored before a task that has ended gives up its container. Null for all other tasks. */
  readonly leaveRevision: Revision | null;
  /** Deadline for the executor to reattach to this attempt, or null if this attempt is not waiting for the executor. */
  readonly reattachBy: number | null;
}

export interface TaskFailures {
  readonly charged: number;
  /** Number of failures that are not charged, because the cluster or another task caused them. */
  readonly free: number;
  /** Number of consecutive failures that occurred before a program started. */
  readonly unstarted: number;
  /** Number of consecutive failures. Used only for spare tasks. */
  readonly inARow: number;
  readonly newest: TaskFailure | null;
  /** Time of the newest failure in this attempt of the ApplicationMaster, or 0. */
  readonly newestAt: number;
  readonly launch: string | null;
  /** Nodes on which the task has failed, if the node may have caused the failure. One entry per failure. */
  readonly nodes: readonly string[];
}

export interface Wait {
  readonly since: number;
  /** How many times the task was not ready within the gang timeout. Counted only for tasks that restart without the gang. */
  readonly rounds: number;
  readonly notBefore: number;
  readonly asked: boolean;
  /** True while the task waits for the roles in its `after` option. */
  readonly held: boolean;
}

export interface TaskExecutor {
  /** True while the executor's stream is open. */
  readonly attached: boolean;
  readonly host: string;
  readonly port: number;
  /** Generation for which the port was bound, or 0 if no program has used the port yet. */
  readonly portFor: Generation;
  readonly lastHeard: number;
  readonly stoppedSince: number | null;
  readonly awaiting: { readonly answer: 'ready' | 'started'; readonly since: number } | null;
  readonly program: TaskProgram | null;
  /** Newest generation in which the executor has run a program, or 0 if there is none. */
  readonly ranIn: Generation;
  /** True if a program from any generation may be running in the container. */
  readonly mayRun: boolean;
  /** The rank that the program reported as lost, and the time of the report. */
  readonly lostRank: { readonly rank: number; readonly since: number } | null;
  /** True after the program's last training step. */
  readonly ending: boolean;
  /**
   * A failed exit that has not been charged yet, because another report may explain it. `since` is the time of the report. Until `until`,
   * the cluster may still report that it killed the program.
   */
  readonly pendingExit: { readonly exit: ProgramExit; readonly since: number; readonly until: number } | null;
  readonly clock: ExecutorClock | null;
  readonly usage: Usage | null;
}

export interface TaskProgram {
  readonly generation: Generation;
  readonly phase: 'starting' | 'running' | 'ended';
}

export interface Ending {
  readonly containerId: string;
  readonly role: string;
  /** The task's index, or -1 if the container may belong to any task in the role. */
  readonly index: number;
  readonly node: string;
  readonly since: number;
  /** Latest time at which the program may still be running, based on the executor's lease. 0 if no program can be running. */
  readonly until: number;
  readonly attached: boolean;
  /**
   * The ResourceManager's newest report on the container. After `presumed` and `preempted`, the container's processes may still be running.
   */
  readonly reported: 'nothing' | 'presumed' | 'preempted';
  readonly stopAt: number;
  /** True if the job waits briefly for this container before the job itself ends. */
  readonly drains: boolean;
  /** True if the container's failure was charged and the cluster may still report a different cause. */
  readonly refundable: boolean;
}

/** Limits that cannot be configured. */
export const LIMITS = {
  /** The job fails after the gang, or a task that restarts alone, has timed out this many times in a row. */
  rounds: 3,
  /**
   * A task fails permanently after `unstarted` consecutive failures in which no program started, or after `freeFailures` failures that were
   * not charged.
   */
  unstarted: 10,
  freeFailures: 200,
  /**
   * How long an incomplete gang keeps its containers while YARN allocates no more of them. Doubles each time, up to `longestHoldMs`. A gang
   * that has run before starts with `rejoinHoldMs`, because its tasks would lose their prepared containers.
   */
  holdMs: 10_000,
  longestHoldMs: 30_000,
  rejoinHoldMs: 60_000,
  /** How long a gang that has returned its containers leaves the room to other jobs. Doubles each time, up to `longestReturnedMs`. */
  returnedMs: 10_000,
  longestReturnedMs: 120_000,
  /** After this many failures on a node, a role excludes the node. */
  failuresPerNode: 2,
  /** A generation that has run for this long counts as progress, even without a new checkpoint. */
  fruitfulMs: 10 * 60_000,
  /**
   * How long a gang with enough ready members waits for more members. `arrivingMs` applies while a missing member has a container, and
   * `moreMs` applies otherwise.
   */
  arrivingMs: 20_000,
  moreMs: 3_000,
  /** How long an elastic generation must run before it may grow. Each growth doubles this time, up to `longestGrowMs`. */
  growMs: 10_000,
  longestGrowMs: 5 * 60_000,
  /**
   * An elastic job requests extra containers only in the first `growAskMs` of each `growAskEveryMs`. If a request were always open, YARN
   * would reserve resources for it on a full cluster.
   */
  growAskMs: 8_000,
  growAskEveryMs: 30_000,
  /** A role that has waited this long for a container no longer excludes nodes. */
  choosyMs: 30_000,
  /** If another task has waited this long for a container, spare tasks and extra elastic tasks give up theirs. */
  yieldMs: 15_000,
  /** A spare task counts as stable once it has run for this long. */
  spareSteadyMs: 2 * 60_000,
  sparePauseMs: 60_000,
  /** Timeout for saving the result when the job ends. */
  saveMs: 30_000,
  /** How long programs may take to exit after the result has been saved and their grace periods have ended. */
  drainMs: 2_000,
  /** How long an executor may take to exit after its program's grace period. Then the cluster is ordered to stop the container. */
  leaveMs: 7_000,
  stopAgainMs: 30_000,
  /** Maximum time that a NodeManager takes to kill a preempted container. The NodeManager receives the order with its next heartbeat. */
  preemptedMs: 10_000,
  /**
   * After this time, a stopped container is removed from the state even if no report has arrived. By default, YARN declares a silent node
   * lost after 10 minutes.
   */
  forgetMs: 15 * 60_000,
  /**
   * How long the job waits for the cluster to report a cause if a program was killed by a signal and the job would otherwise fail at once.
   */
  truthMs: 5_000,
  /** How long a failed exit waits for reports from the members that may have failed earlier. */
  settleMs: 90_000,
  /** How long a later attempt waits for a report about a container that the cluster does not list. */
  unlistedMs: 10_000,
  stderrBytes: 2_048,
  textBytes: 1_024,
  notices: 20,
  metrics: 200,
} as const;

export function jobOf(state: MachineState): Job {
  return state.frozen.job;
}

/** Returns the generation that messages from gang tasks must contain. */
export function currentGeneration(state: MachineState): Generation {
  return state.gang?.phase === 'forming' ? next(state.generation) : state.generation;
}

export function nameOf(task: { readonly role: Role; readonly index: number }): string {
  return `${task.role.name}:${task.index}`;
}

export function isOver(task: Task): boolean {
  return isTaskOver(task.state);
}

/** Returns the task's container, or the last container of a task that is over. Returns null if the task waits for a container. */
export function placeOf(task: Task): Task['newest'] {
  return task.container ?? (isOver(task) ? task.newest : null);
}

/** Returns true if the task has succeeded, or if tony-ts has stopped it after other roles ended. */
export function hasEnded(task: Task): boolean {
  return task.state === 'succeeded' || task.state === 'stopped';
}

/** Returns true if the executor is attached and idle, and its port is valid for a program in `generation`. */
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
