import { ask } from './container-requests.ts';
import type { Cause } from './diagnostics.ts';
import { type Detachment, detach, letLeave } from './ending.ts';
import {
  chargeFailure,
  type Failure,
  failureDiagnostics,
  findBlamedMember,
  lossOf,
  recordFailure,
  restartPause,
  whyNotRestarted,
} from './failures.ts';
import { decide } from './finish.ts';
import { claimGeneration, prepare, startGeneration, startReplacements, startUnranked, unclaim } from './gang.ts';
import { jobOf, nameOf, type Task } from './job-state.ts';
import { canBeGivenUp, gangTasks, inGang, isExpendable, isMember, memberTasks, restartsAlone } from './membership.ts';
import { graceMs } from './timeouts.ts';
import type { Transition } from './transition.ts';

// The recovery of a job, from a lost task to the programs of the next generation, in the order in which it happens.

/** 1. On every tick: finds lost tasks, such as those whose executor has missed its heartbeats. */
export function detectLostTasks(transition: Transition): void {
  for (const { slot } of transition.state.tasks) {
    const cause = lossOf(transition.state, transition.task(slot));
    if (cause !== null) {
      failTask(transition, slot, cause);
    }
    if (transition.state.decision !== null) {
      return;
    }
  }
  const blamed = findBlamedMember(transition.state);
  if (blamed !== null) {
    failTask(transition, blamed.slot, blamed.cause);
  }
}

/**
 * 2. Counts the failure, stops the task's container, and restarts the task if its role's restart budget permits. Also called for failures
 * that executors or the cluster report.
 */
export function failTask(transition: Transition, slot: number, cause: Cause, how: Detachment = 'stop'): void {
  const task = transition.task(slot);
  // Failures after a task's success or after the end of the job do not count.
  if (task.state === 'succeeded' || transition.state.decision !== null) {
    detach(transition, slot, how, 'it is no longer needed');
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

/** Continues the job without the task if it can, and fails the job otherwise. */
function giveUp(transition: Transition, failure: Failure, end: NonNullable<ReturnType<typeof whyNotRestarted>>): void {
  const { task, cause } = failure;
  transition.update(task.slot, { state: cause.kind === 'program' ? 'failed' : 'lost' });
  // The job continues without a sidecar, unless the sidecar is a member of the gang: a missing rank would break the ring.
  if (task.role.tracking === 'sidecar' && !inGang(task)) {
    return;
  }
  const expendable = isExpendable(transition.state, task);
  if (!canBeGivenUp(transition.state, task) || (end.kind === 'job' && expendable)) {
    decide(transition, { state: 'FAILED', diagnostics: failureDiagnostics(transition.state, failure, end.text) });
    return;
  }
  const why = expendable ? 'enough other tasks remain' : 'the chief decides how the job ends';
  transition.recordTask('task-given-up', transition.task(task.slot), { detail: `it ${end.text}; ${why}` });
  // If the task was a member, a new generation continues without it.
  if (isMember(task) && (expendable || !restartsAlone(transition.state, task))) {
    endGeneration(transition, task, 'was given up');
  }
}

function endGeneration(transition: Transition, task: Task, what: string): void {
  if (transition.gang?.phase === 'forming') {
    return;
  }
  newGeneration(transition, { incidentUntil: transition.now + graceMs(jobOf(transition.state)), why: `${nameOf(task)} ${what}` });
}

/**
 * 3. Ends the running generation: its members stop their programs and bind new ports; members without an executor are requested again.
 * Until `incidentUntil`, further failures of members count as consequences of the failure that ended the generation.
 */
export function newGeneration(transition: Transition, options: { incidentUntil: number | null; why: string }): void {
  const ended = transition.state.generation;
  // The next generation reports its own early end.
  transition.patchTraining({ earlyEnd: null });
  transition.patchGang({
    phase: 'forming',
    since: transition.now,
    rounds: 0,
    notBefore: transition.now,
    members: [],
    incident: options.incidentUntil === null ? null : { generation: ended, until: options.incidentUntil },
    why: options.why,
  });
  unclaim(transition);
  for (const task of gangTasks(transition.state)) {
    transition.updateContainer(task.slot, { leaveRevision: null });
    if (task.executor !== null) {
      prepare(transition, task.slot);
    } else if (task.state === 'succeeded') {
      transition.update(task.slot, { state: 'requested', wait: { since: transition.now, notBefore: transition.now }, exit: null });
    }
  }
}

/**
 * 4. After every event: starts programs that can start, and requests containers for the tasks that lack one. The cluster answers with
 * `allocated`, the executor in the new container with `hello`, and a prepared executor with `ready`.
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

/** 5. Chooses the members as soon as possible. Starts them once all of them are ready and the snapshot that names them is durable. */
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
