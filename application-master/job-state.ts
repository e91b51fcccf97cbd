import type { FrozenJob, Job, Role } from '../conf/job.ts';
import type { JobResult, TaskState, Usage } from '../conf/status.ts';
import type { Member } from '../training/task-context.ts';
import type { Container, JobLimits, ProgramExit } from './events.ts';

/** All that the job machine knows. Values only; `step` makes a new one from the old one. */
export interface JobState {
  readonly frozen: FrozenJob;
  readonly attempt: number;
  readonly startedAt: number;
  readonly now: number;
  /** Null until the resource manager knows this attempt: nothing is asked for before. */
  readonly registration: Registration | null;
  /** Why nothing may be asked for as yet, empty before that is known; null when all may. */
  readonly held: string | null;
  readonly limits: JobLimits;
  /** When a program last computed, or told of progress. */
  readonly busyAt: number;
  /** True for an attempt that goes on with the state of another. */
  readonly restored: boolean;
  /** The highest generation that may have been started. While the gang forms, the one being formed is the next. */
  readonly generation: number;
  /** In the order of roles and indices; a task's place in it is its `slot`. */
  readonly tasks: readonly Task[];
  /** Slot of the task that a container belongs to. A container that is not here has no say in the job. */
  readonly byContainer: ReadonlyMap<string, number>;
  /** Containers that were told to end and whose end is not known yet. */
  readonly ending: ReadonlyMap<string, Ending>;
  /** Null when no task is ranked. */
  readonly gang: Gang | null;
  /** What the negotiator was last asked for, by role. */
  readonly asks: ReadonlyMap<string, Ask>;
  /** Why the resource manager refused a role's ask. */
  readonly refusals: ReadonlyMap<string, string>;
  readonly cluster: { readonly nodes: number; readonly headroom: Readonly<Record<string, number>> } | null;
  /** Revision of the newest snapshot that was given out, and of the newest that is durable. */
  readonly revision: number;
  readonly durable: number;
  /** Nobody counts as silent before this: this process itself had been held up until then. */
  readonly heardFloor: number;
  readonly firstFailure: { readonly text: string; readonly containerId: string | null } | null;
  /** Of an earlier attempt. */
  readonly metrics: Readonly<Record<string, number>>;
  readonly checkpointStep: number;
  readonly notices: readonly string[];
  /** Why this generation's training ends before its last epoch, for the job's last word; null when it does not. */
  readonly earlyEnd: string | null;
  /** Decided once. */
  readonly result: JobResult | null;
  readonly decidedAt: number;
  /** Revision of the first snapshot that names the result. */
  readonly decidedIn: number;
  /** When the orders to stop were given out; null before. */
  readonly stoppedAt: number | null;
  readonly finished: boolean;
}

export interface Registration {
  readonly maximum: Readonly<Record<string, number>>;
  readonly resourceTypes: readonly string[];
  readonly queue: string;
}

export interface Ask {
  readonly count: number;
  readonly excludedNodes: readonly string[];
  /** When it was said: nothing has come since. */
  readonly since: number;
}

export interface Gang {
  /**
   * `forming`: generation + 1 waits for its members. `started`: `generation` runs. `reattaching`: a second attempt waits for the
   * executors of the first, to learn whether `generation` runs.
   */
  readonly phase: 'forming' | 'started' | 'reattaching';
  /** Since when this round of forming goes on. */
  readonly since: number;
  /** Rounds that ended in vain. */
  readonly rounds: number;
  /** Nothing is asked for before. */
  readonly notBefore: number;
  /** Revision of the snapshot that names the generation being formed with its present members; null until all have containers. */
  readonly claim: number | null;
  /** Generations in a row that a failure ended before they had made a checkpoint, or had run for long. */
  readonly fruitless: number;
  /** The newest checkpoint when `generation` started. */
  readonly startedFrom: number;
  /** Whom the members of `generation` were told about: a Start that is said again says the same. */
  readonly members: readonly Member[];
  /** The failure that ended a generation, and until when others of that generation that fail count as its victims. */
  readonly incident: { readonly generation: number; readonly until: number } | null;
  /** Why the generation is formed, for the history; empty for the first. */
  readonly why: string;
  /** Of an elastic job: since when enough are ready, those who come in the next moments are waited for. */
  readonly enoughSince: number | null;
  /** How often in a row it has grown: each time it waits longer before the next. */
  readonly growths: number;
  /** When the newest checkpoint was heard of. */
  readonly checkpointAt: number | null;
}

export interface Task {
  readonly slot: number;
  readonly role: Role;
  readonly index: number;
  /** In the newest generation that is claimed or started; null for who has none there. */
  readonly rank: number | null;
  readonly state: TaskState;
  readonly container: Container | null;
  /** Its container has been asked for, and has not come. */
  readonly asked: boolean;
  /** Revision of the first snapshot that names the container. */
  readonly savedIn: number;
  /** A second attempt gives up waiting for this container's executor then; null when it does not wait. */
  readonly reattachBy: number | null;
  /** Null until its hello. */
  readonly executor: Executor | null;
  /** Containers it has had. */
  readonly attempts: number;
  /** Failures that cost budget. */
  readonly failures: number;
  /** Failures that do not: the cluster's, and those of others. */
  readonly freeFailures: number;
  /** Failures in a row without a program having been started. */
  readonly unstarted: number;
  readonly failedNodes: readonly string[];
  /** Of a companion: how often it has ended in a row. */
  readonly falls: number;
  /** Since when it waits for its program to start; rounds of waiting that ended in vain; nothing is asked for before. Unranked tasks only have rounds of their own. */
  readonly waitingSince: number;
  readonly rounds: number;
  readonly notBefore: number;
  /** The text of the newest failed launch. */
  readonly launchFailure: string | null;
  /** A task that has succeeded keeps its container until the snapshot of this revision is durable; null for others. */
  readonly leaveAfter: number | null;
  /** A failed exit that is not judged before `until`: its cause may show itself elsewhere. */
  readonly pendingExit: { readonly exit: ProgramExit; readonly until: number } | null;
  /** Generation of the newest program. */
  readonly generation: number;
  readonly exitCode: number | null;
  readonly failure: string | null;
  readonly usage: Usage | null;
  readonly step: number;
  readonly metrics: Readonly<Record<string, number>>;
}

export interface Executor {
  /** Its stream is open. */
  readonly attached: boolean;
  readonly host: string;
  readonly port: number;
  /** Generation that the port was bound for; 0 when it has never been used. */
  readonly portFor: number;
  readonly lastHeard: number;
  readonly stoppedSince: number | null;
  readonly awaiting: { readonly answer: 'ready' | 'started'; readonly since: number } | null;
  readonly program: Program | null;
  /** Generation in which it last ran a program; 0 if in none. */
  readonly ranIn: number;
  /** A program of any generation may live in it. */
  readonly mayRun: boolean;
  /** The rank that its program has lost, as it says, and since when. */
  readonly lostRank: { readonly rank: number; readonly since: number } | null;
  /** Its program has taken the last step of its training. */
  readonly ending: boolean;
}

export interface Program {
  readonly generation: number;
  readonly phase: 'starting' | 'running' | 'ended';
}

export interface Ending {
  readonly containerId: string;
  readonly role: string;
  /** -1 when it is not known: it may be any task of the role. */
  readonly index: number;
  readonly since: number;
  /** A program in it may live until then, for all that is known: the end of its executor's lease. 0 if none can. */
  readonly until: number;
  /** When the cluster is told (again) to end it. */
  readonly stopAt: number;
  /** Its stop was sent at the job's end, which waits a little for it. */
  readonly drains: boolean;
  /** The failure that led to it was charged on what its executor showed; the cluster may know better. */
  readonly refundable: boolean;
}

/** A job's limits that nobody needs to set. */
export const LIMITS = {
  /** Rounds of gang forming (or of waiting for an unranked task) before the job fails. */
  rounds: 3,
  /** Free failures in a row without a program started; and in all. */
  unstarted: 10,
  freeFailures: 200,
  /** Failures on a node after which a role avoids it. */
  failuresPerNode: 2,
  /** A generation that ran for so long has done something, whatever it says. */
  fruitfulMs: 10 * 60_000,
  /** With enough members ready, how long others are waited for that have a container; and that may yet get one. */
  arrivingMs: 20_000,
  moreMs: 3_000,
  /** A generation of an elastic job runs for so long before it grows, twice as long after each growth, but not longer than the other. */
  growMs: 10_000,
  longestGrowMs: 5 * 60_000,
  /** It asks for more during the first part of each such time: a cluster that is full holds room back for whoever asks without end. */
  growAskMs: 8_000,
  growAskEveryMs: 30_000,
  /** An ask that gets nothing for so long stops being choosy about nodes. */
  choosyMs: 30_000,
  /** How long others may wait for a container that a companion may be holding. */
  yieldMs: 15_000,
  /** A companion that ran for so long has not fallen; the longest pause before one that falls again and again is back. */
  companionSteadyMs: 2 * 60_000,
  companionPauseMs: 60_000,
  /** How long the job's end waits for its result to be saved. */
  saveMs: 30_000,
  /** And then for programs to end. */
  drainMs: 5_000,
  /** How long an executor that was told to leave may take before the cluster ends its container, and the pause between such orders. */
  leaveMs: 10_000,
  stopAgainMs: 30_000,
  /** After this, a container that was told to end is forgotten: the cluster would have told of anything within its 10 minutes. */
  forgetMs: 15 * 60_000,
  /** How long a program's death by a signal waits for the cluster to name the cause, when the job's end hangs on it. */
  truthMs: 3_000,
  /** How long a second attempt waits for news of a container that the cluster no longer lists. */
  unlistedMs: 10_000,
  stderrBytes: 2_048,
  textBytes: 1_024,
  notices: 20,
  metrics: 200,
} as const;

export function jobOf(state: JobState): Job {
  return state.frozen.job;
}

/** The generation that messages of ranked tasks must carry now. */
export function currentGeneration(state: JobState): number {
  return state.gang?.phase === 'forming' ? state.generation + 1 : state.generation;
}

export function nameOf(task: { readonly role: Role; readonly index: number }): string {
  return `${task.role.name}:${task.index}`;
}

export function isOver(task: Task): boolean {
  return task.state === 'succeeded' || task.state === 'failed' || task.state === 'lost' || task.state === 'stopped';
}

/** The bound port may be given to a program of the generation being formed. */
export function isReady(task: Task, generation: number): boolean {
  const executor = task.executor;
  return (
    executor?.attached === true &&
    executor.program === null &&
    executor.port > 0 &&
    executor.awaiting === null &&
    (executor.portFor === 0 || executor.portFor === generation)
  );
}
