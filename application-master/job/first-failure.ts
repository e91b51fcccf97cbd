import { inGang } from '../../conf/role-conditions.ts';
import { isSignalled, signalOf } from '../../conf/status/program-signal.ts';
import { restartsInJob } from './failures.ts';
import { type Cause, programEnd } from './state/diagnostics.ts';
import type { ProgramExit } from './state/events.ts';
import { type ExecutorClock, masterTime } from './state/executor-clock.ts';
import { hasEnded, jobOf, LIMITS, type MachineState, nameOf, type Task, type TaskExecutor } from './state/job-state.ts';
import { isIndependentlyReplaceable, isMember, memberTasks, peerNumber, restartsAlone } from './state/membership.ts';
import { incidentMs } from './state/timeouts.ts';

// When one program of a gang fails, the programs of its peers usually fail too, within milliseconds. Only the first failure is the cause, but
// reports can arrive in any order. This file decides which failure came first. Evidence, from strongest to weakest: a cause that the cluster
// reports, the time of an exit (see ExecutorClock), whether a signal or an exit code ended the program, and lost-peer reports.

export interface Charge {
  readonly slot: number;
  readonly cause: Cause;
}

interface FailedExit {
  readonly task: Task;
  readonly exit: ProgramExit;
  /** Time of the exit on the ApplicationMaster's clock. */
  readonly at: number;
  readonly since: number;
  readonly until: number;
}

/**
 * If two programs exit within this time, in ms, a signal counts as the earlier one. A program that loses a peer usually exits with an error
 * code.
 */
const SIMULTANEOUS_MS = 100;
/** C++ runtimes react to a lost peer with SIGABRT, and writers to a closed connection receive SIGPIPE. */
const SIGNALS_OF_VICTIMS: readonly string[] = ['SIGABRT', 'SIGPIPE'];

/**
 * Returns the failed exit to charge next, or null if no exit has failed or the evidence is incomplete.
 * 1. The exits are considered in the order in which they happened.
 * 2. An exit waits while the cluster may still report that it killed the program.
 * 3. An exit waits for all peers that may have failed before it: until the peer's executor shows that the peer was still running at the time
 *    of the exit, or until the peer itself counts as failed or lost.
 * 4. If a peer is suspended and was last seen running before the exit, the peer is charged instead.
 */
export function nextFailure(state: MachineState): Charge | null {
  const job = jobOf(state);
  let isBlocked = false;
  for (const each of failedExits(state)) {
    if (isBlocked && inGang(each.task.role)) {
      continue;
    }
    const next = chargeFor(state, each);
    if (next !== null) {
      return next;
    }
    isBlocked ||= isMember(each.task) && !isIndependentlyReplaceable(job, each.task.role);
  }
  return null;
}

/** @param failing slot of a task that is being charged; its state is no longer evidence */
function chargeFor(state: MachineState, failed: FailedExit, failing: number | null = null): Charge | null {
  const { task, at, since, until } = failed;
  if (state.now < until) {
    return null;
  }
  const peers = state.tasks.filter((peer) => peer.slot !== failing && mayCause(state, peer, task));
  const suspended = peers.find((peer) => (peer.executor?.stoppedSince ?? null) !== null && knownUntil(peer) < at);
  if (suspended !== undefined) {
    return { slot: suspended.slot, cause: { kind: 'stopped', ms: state.now - (suspended.executor?.stoppedSince ?? state.now) } };
  }
  return state.now >= since + LIMITS.settleMs || peers.every((peer) => isKnown(peer, at)) ? charge(failed) : null;
}

/** Returns the failed exit that certainly happened before this task's failure and may have caused it, or null if there is none. */
export function earlierFailure(state: MachineState, task: Task): Charge | null {
  const exits = failedExits(state);
  const own = exits.find((each) => each.task.slot === task.slot);
  const latest = own === undefined ? knownUntil(task) : order(own);
  const first = exits.find((each) => order(each) < latest && mayCause(state, each.task, task));
  return first === undefined ? null : chargeFor(state, first, task.slot);
}

/** Returns true if a failed exit of the gang has not been charged yet. */
export function isSettling(state: MachineState): boolean {
  return failedExits(state).some(({ task }) => inGang(task.role));
}

function charge({ task, exit }: FailedExit): Charge {
  return { slot: task.slot, cause: { kind: 'program', exit } };
}

/** Returns the failed exits that have not been charged, in order. Exits after a lost-peer report are consequences: `findBlamedMember`. */
function failedExits(state: MachineState): FailedExit[] {
  const exits = state.tasks.flatMap((task): FailedExit[] => {
    const { pendingExit, lostRank, clock } = task.executor ?? {};
    return pendingExit && lostRank === null ? [{ task, ...pendingExit, at: timeOf(clock, pendingExit) }] : [];
  });
  return exits.sort((a, b) => order(a) - order(b));
}

function timeOf(clock: ExecutorClock | null | undefined, { exit, since }: NonNullable<TaskExecutor['pendingExit']>): number {
  return clock && exit.clock !== undefined ? masterTime(clock, exit.clock) : since;
}

function order({ exit, at }: FailedExit): number {
  return wasKilled(exit) ? at - SIMULTANEOUS_MS : at;
}

function wasKilled(exit: ProgramExit): boolean {
  const end = programEnd(exit);
  return isSignalled(end) && !SIGNALS_OF_VICTIMS.includes(signalOf(end) ?? '');
}

/** Returns true if a failure of `peer` may make `task` fail. A worker of parameter servers connects only to the servers. */
function mayCause(state: MachineState, peer: Task, task: Task): boolean {
  return (
    peer.slot !== task.slot && inGang(task.role) && isMember(task) && isMember(peer) && !isIndependentlyReplaceable(jobOf(state), peer.role)
  );
}

/** Returns true if the peer cannot have failed before the time `at` without a report of it. */
function isKnown(peer: Task, at: number): boolean {
  return (
    peer.container === null ||
    hasEnded(peer) ||
    peer.executor?.program?.phase === 'ended' ||
    (peer.executor?.pendingExit ?? null) !== null ||
    knownUntil(peer) >= at
  );
}

function knownUntil({ executor }: Task): number {
  return executor?.clock ? masterTime(executor.clock, executor.clock.heard) : Number.NEGATIVE_INFINITY;
}

/**
 * Returns the member to charge with a failure if members have reported a lost peer and no failure has explained their reports within
 * `incidentMs`. Otherwise, returns null. Selects the member that is named in the most reports. If several members qualify, prefers one that
 * has not sent a report itself.
 */
export function findBlamedMember(state: MachineState): { readonly slot: number; readonly cause: Cause } | null {
  if (state.gang?.phase !== 'started') {
    return null;
  }
  const tasks = memberTasks(state);
  const number = (task: Task) => peerNumber(tasks, task);
  const reporters = tasks.filter((task) => task.executor !== null && task.executor.lostRank !== null);
  const due = reporters.find((task) => state.now - (task.executor?.lostRank?.since ?? state.now) >= incidentMs(jobOf(state)));
  if (due === undefined) {
    return null;
  }
  const votes = (task: Task) => reporters.filter((reporter) => reporter.executor?.lostRank?.rank === number(task)).length;
  const named = tasks
    .filter((task) => task.container !== null && votes(task) > 0)
    .sort((a, b) => votes(b) - votes(a) || Number(reporters.includes(a)) - Number(reporters.includes(b)) || number(a) - number(b));
  // If no reported member has a container, charge a member that sent a report, because it cannot continue.
  const { slot, executor } = named[0] ?? due;
  const pendingExit = executor?.pendingExit ?? null;
  if (pendingExit !== null) {
    return { slot, cause: { kind: 'program', exit: pendingExit.exit } };
  }
  return { slot, cause: { kind: 'blamed', by: slot === due.slot ? 'itself' : nameOf(due) } };
}

/**
 * Returns true if the task's next charged failure may end the job. In that case, the job first waits briefly for a report that the cluster
 * killed the program.
 */
export function isLastStraw(state: MachineState, task: Task): boolean {
  const { policy, maxRestarts, onExitCodes } = task.role.restart;
  const ofJob = jobOf(state).restart.maxRestarts;
  return (
    policy === 'never' ||
    onExitCodes !== null ||
    (ofJob !== null && restartsInJob(state) >= ofJob) ||
    task.failures.charged >= maxRestarts ||
    (!restartsAlone(state, task) && (state.gang?.fruitless ?? 0) >= maxRestarts)
  );
}
