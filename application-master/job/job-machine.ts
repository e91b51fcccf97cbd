import type { FrozenJob, Job, Role } from '../../conf/job.ts';
import { conditionsOf, inGang } from '../../conf/role-conditions.ts';
import { endStateOf } from '../../conf/status/task-failure.ts';
import { exitText } from '../../hadoop/yarn/container-exit.ts';
import { assignContainers, wantedTasks } from './container-requests.ts';
import { forget, noteLostNode } from './ending.ts';
import { heardFromExecutor } from './executors.ts';
import { correctFailure } from './failures.ts';
import { decide, decideSuccess, finish } from './finish.ts';
import { freshGang } from './gang.ts';
import { grow } from './growth.ts';
import { impossibleAsk } from './pending-reasons.ts';
import { failTask, recover } from './recovery.ts';
import { matchSurvivors, settle, withSnapshot } from './restore.ts';
import { endFollowers, endServers, recordHeldRoles, releaseRoles } from './role-order.ts';
import { asGeneration, asRevision, type Revision } from './state/counters.ts';
import { oneLine } from './state/diagnostics.ts';
import type { Action, Event } from './state/events.ts';
import { LIMITS, type MachineState, type Task } from './state/job-state.ts';
import { places, type TaskPlace } from './state/ranks.ts';
import { snapshotOf } from './state/snapshot.ts';
import type { Snapshot } from './state/snapshot-format.ts';
import { Transition } from './state/transition.ts';
import { isStall, watch } from './watch.ts';

/** Value of `about` in notices about delegation tokens. These notices concern the whole job, so their `task` is empty. */
const ABOUT_TOKENS = 'tokens';

/** Records a report about the delegation tokens. The report's notice replaces the previous one. */
function tokensReported(transition: Transition, { event, detail, notice }: Extract<Event, { type: 'tokens' }>): void {
  transition.record(event, { message: oneLine(detail) });
  const others = transition.state.training.notices.filter(({ task, about }) => task !== '' || about !== ABOUT_TOKENS);
  const notices = notice === null ? others : [...others, { task: '', text: oneLine(notice), about: ABOUT_TOKENS }];
  transition.patchTraining({ notices: notices.slice(-LIMITS.notices) });
}

/**
 * Orders all ranked tasks to store a checkpoint, because the cluster will preempt some of the job's containers, usually within a few
 * seconds. The next generation then loses only the steps after this checkpoint.
 */
function preemptionAnnounced(transition: Transition, containerIds: readonly string[]): void {
  const announced = containerIds.flatMap((id): Task[] => {
    const slot = transition.state.byContainer.get(id);
    return slot === undefined ? [] : [transition.task(slot)];
  });
  for (const task of announced) {
    transition.recordTask('preemption-announced', task, { message: 'the cluster is about to preempt the container' });
  }
  if (!announced.some(({ role }) => inGang(role))) {
    return;
  }
  for (const { role, state, container, generation } of transition.state.tasks) {
    if (role.kind === 'gang' && state === 'running' && container !== null) {
      transition.act({ type: 'order-checkpoint', containerId: container.id, generation });
    }
  }
}

// The job state machine makes all of the ApplicationMaster's decisions. `step` is a pure function. It takes a state and an event, and
// returns the next state and a list of actions. It first applies the event, and then calls the rules in `follow`, which depend only on the
// state.

export { statusOf } from './job-status.ts';
export type { MachineState } from './state/job-state.ts';

export interface JobStep {
  readonly state: MachineState;
  readonly actions: readonly Action[];
}

/**
 * Creates a job's state from the configuration that was frozen when the job was submitted.
 * @param snapshot the state that an earlier attempt saved, or null for a new job
 */
export function createJob(
  frozen: FrozenJob,
  snapshot: Snapshot | null,
  { attempt, now }: { readonly attempt: number; readonly now: number },
): MachineState {
  const tasks = places(frozen.job).map((place, slot) => freshTask(frozen.job, place, slot, now));
  const fresh: MachineState = {
    frozen,
    attempt,
    startedAt: now,
    now,
    heardFloor: now,
    busyAt: now,
    restored: false,
    admission: { held: null, limits: { timeout: null, idle: null, mayGrow: true } },
    cluster: { registration: null, nodes: 1, headroom: {}, lostNodes: new Set() },
    requests: { asks: new Map(), refusals: new Map() },
    generation: asGeneration(0),
    tasks,
    byContainer: new Map(),
    ending: new Map(),
    roleEnds: new Map(),
    gang: tasks.some(({ role }) => inGang(role)) ? freshGang(now) : null,
    revisions: { newest: asRevision(0), durable: asRevision(0) },
    firstFailure: null,
    training: { metrics: {}, checkpointStep: 0, notices: [], earlyEnd: null },
    decision: null,
  };
  return snapshot === null ? fresh : withSnapshot(fresh, snapshot);
}

/** Returns the task to which a container is assigned, or null if the container is not part of the job. */
export function assignmentOf(state: MachineState, containerId: string): { role: string; index: number } | null {
  const task = state.tasks[state.byContainer.get(containerId) ?? -1];
  return task === undefined ? null : { role: task.role.name, index: task.index };
}

export function step(state: MachineState, event: Event): JobStep {
  const transition = new Transition(state, event.now);
  if (isStall(transition, state.now)) {
    transition.patch({ heardFloor: transition.now });
  }
  apply(transition, event);
  // Skip the rules if a heartbeat changes only the task that sent it. This keeps heartbeats cheap even with a thousand executors.
  if (event.type !== 'heartbeat' || transition.checkpointed || transition.dirty) {
    follow(transition);
  }
  return { state: transition.state, actions: transition.actions };
}

function apply(transition: Transition, event: Event): void {
  switch (event.type) {
    case 'registered':
      registered(transition, event);
      break;
    case 'allocated':
      assignContainers(transition, event.containers);
      break;
    case 'ask-refused':
      askRefused(transition, event.role, event.message);
      break;
    case 'launch-failed':
      launchFailed(transition, event.containerId, event.message);
      break;
    case 'container-ended':
      containerEnded(transition, event);
      break;
    case 'preempting':
      preemptionAnnounced(transition, event.containerIds);
      break;
    case 'persisted':
      persisted(transition, event.revision);
      break;
    case 'cluster':
      transition.patch({ cluster: { ...transition.state.cluster, nodes: event.nodes, headroom: event.headroom } });
      break;
    case 'held':
      transition.patch({ admission: { ...transition.state.admission, held: event.reason } });
      if (event.reason !== '') {
        transition.record('job-held', { message: event.reason });
      }
      break;
    case 'admitted':
      admitted(transition);
      break;
    case 'limits':
      transition.patch({ admission: { ...transition.state.admission, limits: event.limits } });
      break;
    case 'tokens':
      tokensReported(transition, event);
      break;
    case 'tokens-ended':
    case 'refused':
      decide(transition, { state: 'failed', message: event.reason });
      break;
    case 'kill':
      decide(transition, { state: 'killed', message: oneLine(event.reason) });
      break;
    case 'tick':
      watch(transition);
      break;
    default:
      heardFromExecutor(transition, event);
  }
}

function follow(transition: Transition): void {
  if (transition.state.decision === null) {
    endFollowers(transition);
    decideSuccess(transition);
  }
  if (transition.state.decision === null) {
    endServers(transition);
    releaseRoles(transition);
  }
  if (transition.state.decision === null) {
    settle(transition);
    grow(transition);
    recover(transition);
  }
  finish(transition);
  if (transition.dirty && transition.state.decision?.finished !== true) {
    transition.patch({ revisions: { ...transition.state.revisions, newest: transition.nextRevision } });
    transition.act({ type: 'persist', snapshot: snapshotOf(transition.state) });
  }
}

function persisted(transition: Transition, revision: Revision): void {
  const { revisions } = transition.state;
  if (revision > revisions.durable) {
    transition.patch({ revisions: { ...revisions, durable: revision } });
  }
}

function registered(transition: Transition, event: Extract<Event, { type: 'registered' }>): void {
  if (transition.state.cluster.registration !== null) {
    return;
  }
  const { maximum, resourceTypes, countsAll, queue } = event;
  transition.patch({ cluster: { ...transition.state.cluster, registration: { maximum, resourceTypes, countsAll, queue } } });
  transition.patchGang({ since: transition.now, notBefore: transition.now });
  for (const task of transition.state.tasks) {
    transition.update(task.slot, { wait: { since: transition.now } });
  }
  transition.record('master-registered', {
    message: `attempt ${transition.state.attempt}, queue ${queue}, ${event.survivors.length} containers from the previous attempt`,
  });
  matchSurvivors(transition, event);
  // Skip the check. An earlier attempt has run on this cluster, so the resources exist, even if a large node is temporarily unavailable.
  if (transition.state.restored) {
    return;
  }
  recordHeldRoles(transition);
  for (const role of transition.state.frozen.job.roles) {
    const sentence = impossibleAsk(transition.state, role);
    if (sentence !== null && role.spare) {
      goWithout(transition, role, sentence);
    } else if (sentence !== null) {
      decide(transition, { state: 'failed', message: sentence });
    }
  }
}

/** Allows the job to request containers. The job's run time starts now, unless the job was running before this attempt. */
function admitted(transition: Transition): void {
  const { admission, generation, startedAt, now } = transition.state;
  if (admission.held === null) {
    return;
  }
  transition.patch({ admission: { ...admission, held: null }, startedAt: generation === 0 ? now : startedAt, busyAt: now });
  transition.patchGang({ since: transition.now, notBefore: transition.now });
  for (const task of transition.state.tasks) {
    if (task.state === 'requested') {
      transition.update(task.slot, { wait: { since: transition.now } });
    }
  }
}

function goWithout(transition: Transition, role: Role, sentence: string): void {
  const failure = { cause: { kind: 'impossible', message: sentence }, cost: 'free', node: null, lines: [] } as const;
  for (const task of transition.state.tasks) {
    if (task.role === role) {
      transition.update(task.slot, { state: endStateOf(failure.cause), failures: { newest: failure } });
    }
  }
  transition.dirty = true;
  transition.record('went-without', { role: role.name, message: sentence });
}

/**
 * Handles a request that the ResourceManager has refused. If no container has run yet, the request is invalid, so the job fails. Later
 * refusals may be temporary, for example because a node is unavailable, so the job waits until the gang timeout expires.
 */
function askRefused(transition: Transition, name: string, message: string): void {
  const { requests } = transition.state;
  transition.patch({ requests: { ...requests, refusals: new Map(requests.refusals).set(name, message) } });
  transition.record('ask-refused', { role: name, message: oneLine(message) });
  const role = transition.state.frozen.job.roles.find((each) => each.name === name);
  const tasks = transition.state.tasks.filter((task) => task.role === role);
  if (
    role === undefined ||
    role.spare ||
    transition.state.restored ||
    tasks.some((task) => task.attempts > 0) ||
    wantedTasks(transition.state, role).length === 0
  ) {
    return;
  }
  const label =
    role.nodeLabel === null
      ? ''
      : ` Check roles.${role.name}.nodeLabel (${role.nodeLabel}): yarn cluster --list-node-labels lists the cluster's labels.`;
  decide(transition, {
    state: 'failed',
    message: `The ResourceManager refuses containers for role ${role.name}: ${oneLine(message)}${label} Check roles.${role.name}.resources as well.`,
  });
}

function launchFailed(transition: Transition, containerId: string, message: string): void {
  const slot = transition.state.byContainer.get(containerId);
  if (slot !== undefined) {
    failTask(transition, slot, { kind: 'launch', message }, 'release');
  }
}

function containerEnded(transition: Transition, event: Extract<Event, { type: 'container-ended' }>): void {
  const { containerId, end, exitStatus, diagnostics } = event;
  const cause = { kind: 'container', end, exitStatus, diagnostics } as const;
  const slot = transition.state.byContainer.get(containerId);
  if (end === 'node-lost') {
    noteLostNode(transition, containerId);
  }
  recordEnd(transition, event);
  if (slot === undefined) {
    correctFailure(transition, containerId, cause);
    forget(transition, containerId, end);
    return;
  }
  const pendingExit = transition.task(slot).executor?.pendingExit ?? null;
  // If the program has already failed, use the program's exit code instead of the executor's. A cause that the cluster reports takes
  // precedence over both.
  if (pendingExit !== null && end === 'exited') {
    failTask(transition, slot, { kind: 'program', exit: pendingExit.exit }, 'ended');
  } else {
    failTask(transition, slot, cause, end === 'node-lost' ? 'unreachable' : end === 'preempted' ? 'preempted' : 'ended');
  }
}

/** Records that a container has ended. Skips unknown containers, because an earlier attempt has already recorded that they ended. */
function recordEnd(transition: Transition, { containerId, end, exitStatus }: Extract<Event, { type: 'container-ended' }>): void {
  const slot = transition.state.byContainer.get(containerId);
  const ending = transition.state.ending.get(containerId);
  const detail = exitText(exitStatus, end);
  if (slot !== undefined) {
    transition.recordTask('container-ended', transition.task(slot), { message: detail });
  } else if (ending !== undefined && ending.index >= 0) {
    transition.record('container-ended', { role: ending.role, index: ending.index, containerId, message: detail });
  }
}

function freshTask(job: Job, place: TaskPlace, slot: number, now: number): Task {
  return {
    ...place,
    slot,
    rank: null,
    state: 'requested',
    container: null,
    newest: null,
    executor: null,
    attempts: 0,
    programStarts: 0,
    failures: { charged: 0, free: 0, unstarted: 0, inARow: 0, newest: null, newestAt: 0, launch: null, nodes: [] },
    wait: { since: now, rounds: 0, notBefore: now, asked: false, held: conditionsOf(job, place.role).length > 0 },
    generation: asGeneration(0),
    exit: null,
    startedAt: null,
    progress: { step: 0, reportedStep: 0, total: 0, metrics: {} },
  };
}
