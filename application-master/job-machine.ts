import type { FrozenJob, Role } from '../conf/job.ts';
import { ask, take, wantedTasks } from './asks.ts';
import { isCompanion } from './companion.ts';
import { forget } from './ending.ts';
import type { Action, Event, Snapshot } from './events.ts';
import { exited, heartbeat, hello, letLeave, ready, started, startUnranked, streamLost } from './executors.ts';
import { correctFailure, failTask } from './failures.ts';
import { decide, decideSuccess, finish } from './finish.ts';
import { formGang, freshGang, startReplacements } from './gang.ts';
import { grow } from './growth.ts';
import type { JobState, Task } from './job-state.ts';
import { inGang } from './membership.ts';
import { type Place, places } from './ranks.ts';
import { matchSurvivors, settle, withSnapshot } from './restore.ts';
import { oneLine } from './sentences.ts';
import { snapshotOf } from './snapshot.ts';
import { Turn } from './turn.ts';
import { impossibleAsk } from './waiting.ts';
import { isStall, watch } from './watch.ts';

// The job machine: everything that the ApplicationMaster decides, as a function from what it knows and what happens to what it
// knows then and what is to be done. No clock, socket, promise or chance in here. `step` first applies the event, then brings
// everything that may follow from it up to date (`follow`): rules there look at the state alone, so that it does not matter in which
// order events came.

export type { JobState } from './job-state.ts';
export { statusOf } from './job-status.ts';

export interface Step {
  readonly state: JobState;
  readonly actions: readonly Action[];
}

/** A job that nothing is known of but what the client froze. */
export function createJob(frozen: FrozenJob, options: { readonly attempt: number; readonly now: number }): JobState {
  const { now } = options;
  const tasks = places(frozen.job).map((place, slot) => freshTask(place, slot, now));
  return {
    frozen,
    attempt: options.attempt,
    startedAt: now,
    now,
    registration: null,
    held: null,
    limits: { timeout: null, idle: null, mayGrow: true },
    busyAt: now,
    restored: false,
    generation: 0,
    tasks,
    byContainer: new Map(),
    ending: new Map(),
    gang: tasks.some(inGang) ? freshGang(now) : null,
    asks: new Map(),
    refusals: new Map(),
    cluster: null,
    revision: 0,
    durable: 0,
    heardFloor: now,
    firstFailure: null,
    metrics: {},
    checkpointStep: 0,
    notices: [],
    earlyEnd: null,
    result: null,
    decidedAt: now,
    decidedIn: 0,
    stoppedAt: null,
    finished: false,
  };
}

/** A later attempt of the ApplicationMaster goes on with what the one before left on storage. */
export function restoreJob(frozen: FrozenJob, snapshot: Snapshot, options: { readonly attempt: number; readonly now: number }): JobState {
  return withSnapshot(createJob(frozen, options), snapshot);
}

/** Which task a container belongs to; null for one that has no say in the job. */
export function assignmentOf(state: JobState, containerId: string): { role: string; index: number } | null {
  const task = state.tasks[state.byContainer.get(containerId) ?? -1];
  return task === undefined ? null : { role: task.role.name, index: task.index };
}

export function step(state: JobState, event: Event): Step {
  const turn = new Turn(state, event.now);
  if (isStall(turn, state.now)) turn.patch({ heardFloor: turn.now });
  apply(turn, event);
  // Beats of a thousand executors change nothing but their own task, unless one tells of a checkpoint.
  if (event.type !== 'heartbeat' || turn.checkpointed) follow(turn);
  return { state: turn.state, actions: turn.actions };
}

function apply(turn: Turn, event: Event): void {
  switch (event.type) {
    case 'registered':
      registered(turn, event);
      break;
    case 'allocated':
      take(turn, event.containers);
      break;
    case 'ask-refused':
      askRefused(turn, event.role, event.message);
      break;
    case 'launch-failed':
      launchFailed(turn, event.containerId, event.message);
      break;
    case 'container-ended':
      containerEnded(turn, event);
      break;
    case 'hello':
      hello(turn, event);
      break;
    case 'ready':
      ready(turn, event);
      break;
    case 'started':
      started(turn, event);
      break;
    case 'heartbeat':
      heartbeat(turn, event);
      break;
    case 'exited':
      exited(turn, event);
      break;
    case 'stream-lost':
      streamLost(turn, event);
      break;
    case 'persisted':
      turn.patch({ durable: Math.max(turn.state.durable, event.revision) });
      break;
    case 'cluster':
      turn.patch({ cluster: { nodes: event.nodes, headroom: event.headroom } });
      break;
    case 'held':
      turn.patch({ held: event.reason });
      if (event.reason !== '') turn.record('job-held', { detail: event.reason });
      break;
    case 'admitted':
      admitted(turn);
      break;
    case 'limits':
      turn.patch({ limits: event.limits });
      break;
    case 'refused':
      decide(turn, { state: 'FAILED', diagnostics: event.reason });
      break;
    case 'kill':
      decide(turn, { state: 'KILLED', diagnostics: oneLine(event.reason) });
      break;
    case 'tick':
      watch(turn);
      break;
    default:
      event satisfies never;
  }
}

function follow(turn: Turn): void {
  if (turn.state.result === null) decideSuccess(turn);
  if (turn.state.result === null) {
    settle(turn);
    grow(turn);
    formGang(turn);
    startReplacements(turn);
    startUnranked(turn);
    letLeave(turn);
  }
  ask(turn);
  finish(turn);
  if (turn.dirty && !turn.state.finished) {
    turn.patch({ revision: turn.state.revision + 1 });
    turn.act({ type: 'persist', snapshot: snapshotOf(turn.state) });
  }
}

function registered(turn: Turn, event: Extract<Event, { type: 'registered' }>): void {
  if (turn.state.registration !== null) return;
  const { maximum, resourceTypes, queue } = event;
  turn.patch({ registration: { maximum, resourceTypes, queue } });
  turn.patchGang({ since: turn.now, notBefore: turn.now });
  for (const task of turn.state.tasks) turn.update(task.slot, { waitingSince: turn.now });
  turn.record('master-registered', {
    detail: `attempt ${turn.state.attempt}, queue ${queue}, ${event.survivors.length} containers from before`,
  });
  matchSurvivors(turn, event);
  // A later attempt's job has run here: the largest node may be away for the moment only.
  if (turn.state.restored) return;
  for (const role of turn.state.frozen.job.roles) {
    const sentence = impossibleAsk(turn.state, role);
    if (sentence !== null && isCompanion(turn.state.frozen.job, role)) goWithout(turn, role, sentence);
    else if (sentence !== null) decide(turn, { state: 'FAILED', diagnostics: sentence });
  }
}

/** The wait for others was no wait for containers, and no time of the job's own; one that had begun before is as old as it was. */
function admitted(turn: Turn): void {
  const { held, generation, startedAt, now } = turn.state;
  if (held === null) return;
  turn.patch({ held: null, startedAt: generation === 0 ? now : startedAt, busyAt: now });
  turn.patchGang({ since: turn.now, notBefore: turn.now });
  for (const task of turn.state.tasks) if (task.state === 'requested') turn.update(task.slot, { waitingSince: turn.now });
}

/** The cluster will never have room for it: the job runs as well without. */
function goWithout(turn: Turn, role: Role, sentence: string): void {
  for (const task of turn.state.tasks) if (task.role === role) turn.update(task.slot, { state: 'lost', failure: sentence });
  turn.dirty = true;
  turn.record('went-without', { role: role.name, detail: sentence });
}

/** Before anything has run, a refusal is the answer to a wrong request; later it may be a node that is away, and the gang's deadline decides. */
function askRefused(turn: Turn, name: string, message: string): void {
  turn.patch({ refusals: new Map(turn.state.refusals).set(name, message) });
  turn.record('ask-refused', { role: name, detail: oneLine(message) });
  const role = turn.state.frozen.job.roles.find((each) => each.name === name);
  const tasks = turn.state.tasks.filter((task) => task.role === role);
  if (
    role === undefined ||
    isCompanion(turn.state.frozen.job, role) ||
    turn.state.restored ||
    tasks.some((task) => task.attempts > 0) ||
    wantedTasks(turn.state, role).length === 0
  )
    return;
  const label =
    role.nodeLabel === null
      ? ''
      : ` Check roles.${role.name}.nodeLabel (${role.nodeLabel}): yarn cluster --list-node-labels shows the labels there are.`;
  decide(turn, {
    state: 'FAILED',
    diagnostics: `The ResourceManager refuses containers for role ${role.name}: ${oneLine(message)}${label} Check roles.${role.name}.resources as well.`,
  });
}

function launchFailed(turn: Turn, containerId: string, message: string): void {
  const slot = turn.state.byContainer.get(containerId);
  if (slot !== undefined) failTask(turn, slot, { kind: 'launch', message }, 'release');
}

function containerEnded(turn: Turn, event: Extract<Event, { type: 'container-ended' }>): void {
  const { containerId, end, exitStatus, diagnostics } = event;
  const cause = { kind: 'container', end, exitStatus, diagnostics } as const;
  const slot = turn.state.byContainer.get(containerId);
  recordEnd(turn, event);
  if (slot === undefined) {
    correctFailure(turn, containerId, cause);
    forget(turn, containerId, end);
    return;
  }
  const { pendingExit } = turn.task(slot);
  // An executor that leaves after its program's failure adds nothing; a cluster that ended both does.
  if (pendingExit !== null && end === 'exited') failTask(turn, slot, { kind: 'program', exit: pendingExit.exit }, 'ended');
  else failTask(turn, slot, cause, end === 'node-lost' ? 'unreachable' : 'ended');
}

/** Not of containers that nobody knows: an earlier attempt has seen their ends. */
function recordEnd(turn: Turn, { containerId, end, exitStatus }: Extract<Event, { type: 'container-ended' }>): void {
  const slot = turn.state.byContainer.get(containerId);
  const ending = turn.state.ending.get(containerId);
  const detail = `${end}, exit status ${exitStatus}`;
  if (slot !== undefined) turn.recordTask('container-ended', turn.task(slot), { detail });
  else if (ending !== undefined && ending.index >= 0)
    turn.record('container-ended', { role: ending.role, index: ending.index, containerId, detail });
}

function freshTask(place: Place, slot: number, now: number): Task {
  return {
    ...place,
    slot,
    rank: null,
    state: 'requested',
    container: null,
    asked: false,
    savedIn: 0,
    reattachBy: null,
    executor: null,
    attempts: 0,
    failures: 0,
    freeFailures: 0,
    unstarted: 0,
    failedNodes: [],
    falls: 0,
    waitingSince: now,
    rounds: 0,
    notBefore: now,
    launchFailure: null,
    leaveAfter: null,
    pendingExit: null,
    generation: 0,
    exitCode: null,
    failure: null,
    usage: null,
    step: 0,
    metrics: {},
  };
}
