import { inGang } from '../../conf/role-conditions.ts';
import { endStateOf } from '../../conf/status/task-failure.ts';
import { ask } from './container-requests.ts';
import { type Detachment, detach, letLeave } from './ending.ts';
import { chargeFailure, type Failure, failureDiagnostics, lossOf, recordFailure, restartPause, whyNotRestarted } from './failures.ts';
import { decide } from './finish.ts';
import { earlierFailure, findBlamedMember, isSettling, nextFailure } from './first-failure.ts';
import { claimGeneration, prepare, startGeneration, startReplacements, startUnranked, unclaim } from './gang.ts';
import { describeWaitingRoles } from './role-order.ts';
import type { Cause } from './state/diagnostics.ts';
import { hasEnded, jobOf, nameOf, type Task } from './state/job-state.ts';
import { canBeGivenUp, gangTasks, isExpendable, isMember, memberTasks, restartsAlone } from './state/membership.ts';
import { incidentMs } from './state/timeouts.ts';
import type { Transition } from './state/transition.ts';

// The recovery steps in chronological order, from the loss of a task until the next generation starts. A new job begins with step 4: to the
// machine, a task that never had a container is like one that lost its container.

/** Step 1, on every tick: detects lost tasks, for example a task whose executor has missed heartbeats. */
export function detectLostTasks(transition: Transition): void {
  for (const { slot } of transition.state.tasks) {
    const cause = lossOf(transition.state, transition.task(slot));
    if (cause?.kind === 'time-limit' && isSettling(transition.state)) {
      continue;
    }
    if (cause !== null) {
      // A program at its time limit may store a last checkpoint. All other losses leave no working executor.
      failTask(transition, slot, cause, cause.kind === 'time-limit' ? 'leave' : 'stop');
    }
    if (transition.state.decision !== null) {
      return;
    }
  }
  settleExits(transition);
  const blamed = findBlamedMember(transition.state);
  if (blamed !== null && transition.state.decision === null) {
    failTask(transition, blamed.slot, blamed.cause);
  }
}

/** Charges failed exits, in the order in which they happened. Stops at the first one whose cause is not certain yet. */
export function settleExits(transition: Transition): void {
  for (let next = nextFailure(transition.state); next !== null; next = nextFailure(transition.state)) {
    failTask(transition, next.slot, next.cause);
    if (transition.state.decision !== null) {
      return;
    }
  }
}

/**
 * Step 2: charges the failure to the task, stops the task's container, and restarts the task if it has restarts left. If the cluster reports a
 * failure, recovery begins with this step. If another task's failure came first, that failure is charged, and this one counts as its
 * consequence.
 */
export function failTask(transition: Transition, slot: number, cause: Cause, how: Detachment = 'stop'): void {
  const task = transition.task(slot);
  if (hasEnded(task) || transition.state.decision !== null) {
    detach(transition, slot, how, 'it is no longer needed');
    return;
  }
  const earlier = earlierFailure(transition.state, task);
  if (earlier !== null) {
    failTask(transition, earlier.slot, earlier.cause);
    failTask(transition, slot, cause, how);
    return;
  }
  const failure = chargeFailure(transition, task, cause);
  recordFailure(transition, failure);
  detach(transition, slot, how, 'its task has failed', failure.refundable);
  const end = whyNotRestarted(transition, failure);
  if (end === null) {
    restart(transition, failure);
  } else {
    giveUp(transition, failure, end);
  }
}

function restart(transition: Transition, { task, facts }: Failure): void {
  const notBefore = transition.now + restartPause(transition, task.slot);
  transition.update(task.slot, { state: 'requested', wait: { since: transition.now, notBefore } });
  if (!restartsAlone(transition.state, task)) {
    endGeneration(transition, task, facts.cost === 'charged' ? 'failed' : 'was lost');
  }
}

function giveUp(transition: Transition, failure: Failure, end: NonNullable<ReturnType<typeof whyNotRestarted>>): void {
  const { task, cause } = failure;
  transition.update(task.slot, { state: endStateOf(cause) });
  // The job can continue without a sidecar, but not without a gang member.
  if (task.role.kind === 'sidecar' && !inGang(task.role)) {
    return;
  }
  const expendable = isExpendable(transition.state, task);
  if (!canBeGivenUp(transition.state, task) || (end.why !== 'restarts' && expendable)) {
    const diagnostics = `${failureDiagnostics(transition.state, failure, end.text)}${describeWaitingRoles(transition.state, task)}`;
    decide(transition, { state: 'failed', message: diagnostics }, { role: task.role.name, index: task.index, why: end.why });
    return;
  }
  const why = expendable ? 'enough other tasks remain' : 'the chief decides how the job ends';
  transition.recordTask('task-given-up', transition.task(task.slot), { message: `it ${end.text}; ${why}` });
  // If the task was a member, continue without it in a new generation.
  if (isMember(task) && (expendable || !restartsAlone(transition.state, task))) {
    endGeneration(transition, task, 'was given up');
  }
}

function endGeneration(transition: Transition, task: Task, what: string): void {
  if (transition.gang?.phase === 'forming') {
    return;
  }
  newGeneration(transition, { incidentUntil: transition.now + incidentMs(jobOf(transition.state)), why: `${nameOf(task)} ${what}` });
}

/**
 * Step 3: ends the running generation. Members with an executor stop their programs and bind new ports. Members without an executor get new
 * containers. If another member fails before `incidentUntil`, its failure counts as a consequence of the first one.
 */
export function newGeneration(transition: Transition, options: { incidentUntil: number | null; why: string }): void {
  const ended = transition.state.generation;
  transition.patchTraining({ earlyEnd: null });
  transition.patchGang({
    phase: 'forming',
    since: transition.now,
    rounds: 0,
    returns: 0,
    notBefore: transition.now,
    members: [],
    incident: options.incidentUntil === null ? null : { generation: ended, until: options.incidentUntil },
    why: options.why,
  });
  unclaim(transition);
  const { checkpointStep } = transition.state.training;
  for (const task of gangTasks(transition.state)) {
    transition.updateContainer(task.slot, { leaveRevision: null });
    // The steps since the checkpoint are lost.
    transition.update(task.slot, { progress: { step: Math.min(task.progress.step, checkpointStep) } });
    if (task.executor !== null) {
      prepare(transition, task.slot);
    } else if (hasEnded(task)) {
      transition.update(task.slot, { state: 'requested', wait: { since: transition.now, notBefore: transition.now }, exit: null });
    }
  }
}

/**
 * Step 4, after almost every event: starts programs that can start, and requests containers for tasks that have none, also for the first time.
 * Each call derives the requests anew from the state. The events that follow are
 * `allocated` from the cluster, `hello` from the executor in a new container, and `ready` from an executor that is prepared.
 */
export function recover(transition: Transition): void {
  if (transition.gang?.phase === 'forming') {
    formGeneration(transition);
  }
  startReplacements(transition);
  startUnranked(transition);
  letLeave(transition);
  ask(transition);
}

/**
 * Step 5: selects the next generation's members. Starts their programs once all members are ready and a snapshot that contains the
 * selection has been stored.
 */
function formGeneration(transition: Transition): void {
  const claimRevision = transition.gang?.claimRevision ?? null;
  if (claimRevision === null) {
    claimGeneration(transition);
  } else if (memberTasks(transition.state).some((task) => task.container === null)) {
    unclaim(transition);
    claimGeneration(transition);
  } else if (transition.state.revisions.durable >= claimRevision) {
    startGeneration(transition);
  }
}
