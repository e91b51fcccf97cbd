import { backoffMs } from '../../platform/backoff.ts';
import { type Cause, describeCause, describeStderr, oneLine } from './diagnostics.ts';
import { type Detachment, detach, isFree } from './ending.ts';
import { decide } from './finish.ts';
import { newGeneration } from './gang.ts';
import { type JobState, jobOf, LIMITS, nameOf, type Task } from './job-state.ts';
import { canBeGivenUp, inGang, isElastic, isExpendable, isIndependentlyReplaceable, isMember, restartsAlone } from './membership.ts';
import { falls, isTensorBoardRole, tensorBoardPause } from './tensorboard-task.ts';
import { graceMs } from './timeouts.ts';
import type { Transition } from './transition.ts';

/**
 * What a failure costs the task.
 * - `charged`: one restart.
 * - `free`: nothing, because the cluster caused the failure.
 * - `victim`: nothing, because the task failed as a consequence of another failure that is already counted.
 */
type Cost = 'charged' | 'free' | 'victim';

/**
 * Handles the failure of a task in its container. Detaches the container and requests a new one if the role's restart budget permits.
 * Otherwise the job continues without the task if it can (see `canBeGivenUp`; a sidecar outside the gang is dropped), or fails.
 *
 * `maxRestarts` applies to each task separately: in a role with a hundred tasks, each may fail once. It also limits how many generations in
 * a row may fail without progress: a bug that hits a different task each time counts as one bug. A spent restart is refunded only if the
 * cluster reports that it caused the failure.
 */
export function failTask(transition: Transition, slot: number, cause: Cause, how: Detachment = 'stop'): void {
  const task = transition.task(slot);
  const { state } = transition;
  // Failures after a task's success or after the end of the job do not count.
  if (task.state === 'succeeded' || state.result !== null) {
    detach(transition, slot, how, 'it is no longer needed');
    return;
  }
  const cost = costOf(state, task, cause);
  const node = task.container?.node ?? null;
  const sentence = describeCause(cause, task.role, node);
  const refundable = cost === 'charged' && judgedByLooks(cause);
  const containerId = task.container?.id ?? null;
  transition.recordTask('task-failed', task, {
    generation: task.generation,
    detail: `${cost === 'charged' ? '' : cost === 'free' ? '(not counted: the cluster) ' : '(not counted: it lost its peers) '}${sentence}${describeStderr(cause)}`,
  });
  detach(transition, slot, how, 'its task has failed', refundable);
  const failures = task.failures + (cost === 'charged' ? 1 : 0);
  const freeFailures = task.freeFailures + (cost === 'charged' ? 0 : 1);
  const unstarted = wasStarted(task) ? 0 : task.unstarted + 1;
  const tensorBoard = isTensorBoardRole(jobOf(state), task.role);
  const alone = restartsAlone(state, task);
  const fruitless = cost === 'charged' && !alone ? countFruitless(transition) : 0;
  transition.update(slot, {
    failures,
    freeFailures,
    unstarted,
    failure: `${sentence}${describeStderr(cause)}`,
    exitCode: cause.kind === 'program' ? cause.exit.code : task.exitCode,
    failedNodes:
      node !== null && !tensorBoard && cost !== 'victim' && speaksAgainstNode(cause)
        ? [...task.failedNodes, node].slice(-LIMITS.notices)
        : task.failedNodes,
    launchFailure: cause.kind === 'launch' || cause.kind === 'unheard' ? sentence : task.launchFailure,
  });
  transition.dirty = true;
  // A sidecar's failure is not a cause of the job's failure.
  if (cost === 'charged' && state.firstFailure === null && task.role.tracking !== 'sidecar') {
    transition.patch({ firstFailure: { text: `${nameOf(task)}: ${sentence}${describeStderr(cause)}`, containerId } });
  }

  if (tensorBoard) {
    const count = falls(state, task);
    transition.update(slot, {
      state: 'requested',
      waitingSince: transition.now,
      falls: count,
      notBefore: transition.now + tensorBoardPause(count),
    });
    return;
  }
  const end = finality(task, cost, { failures, freeFailures, unstarted, fruitless });
  if (end !== null) {
    transition.update(slot, { state: cause.kind === 'program' ? 'failed' : 'lost' });
    // Only a sidecar outside the gang may stay away: a missing rank would break the ring.
    if (task.role.tracking === 'sidecar' && !inGang(task)) return;
    const expendable = isExpendable(transition.state, task);
    if (canBeGivenUp(transition.state, task) && (end.kind === 'task' || !expendable)) {
      const why = expendable ? 'enough others can be there' : 'the chief decides how the job ends';
      transition.recordTask('task-given-up', transition.task(slot), { detail: `it ${end.text}; ${why}` });
      // A generation with fewer members must form, unless the task was not a member.
      if ((expendable || !alone) && isMember(task) && transition.gang?.phase !== 'forming') endGeneration(transition, task, 'is given up');
      return;
    }
    decide(transition, {
      state: 'FAILED',
      diagnostics: failureDiagnostics(transition.state, task, end.text, sentence, describeStderr(cause)),
    });
    return;
  }
  transition.update(slot, { state: 'requested', waitingSince: transition.now, notBefore: transition.now + backOff(unstarted) });
  if (!alone && transition.gang?.phase !== 'forming') endGeneration(transition, task, cost === 'charged' ? 'failed' : 'was lost');
}

function endGeneration(transition: Transition, task: Task, what: string): void {
  newGeneration(transition, { incidentUntil: transition.now + graceMs(jobOf(transition.state)), why: `${nameOf(task)} ${what}` });
}

/**
 * True if the task's next charged failure may end the job. The machine then briefly waits for the cluster's report before it charges a
 * death by a signal.
 */
export function isLastStraw(state: JobState, task: Task): boolean {
  const { policy, maxRestarts } = task.role.restart;
  return policy === 'never' || task.failures >= maxRestarts || (!restartsAlone(state, task) && (state.gang?.fruitless ?? 0) >= maxRestarts);
}

/**
 * Applies the cluster's late report on a container whose task was charged because of silence or a signal: the cluster ended the container,
 * or it exceeded its memory limit.
 */
export function correctFailure(transition: Transition, containerId: string, cause: Extract<Cause, { kind: 'container' }>): void {
  const ending = transition.state.ending.get(containerId);
  if (ending?.refundable !== true) return;
  const task = transition.state.tasks.find((each) => each.role.name === ending.role && each.index === ending.index);
  if (task === undefined || (!isFree(cause.end) && cause.end !== 'memory-exceeded')) return;
  // By now, `stopped-by-master` and `released` result from this ApplicationMaster's own stop orders.
  if (cause.end === 'stopped-by-master' || cause.end === 'released') return;
  const sentence = describeCause(cause, task.role, null);
  const free = isFree(cause.end);
  transition.recordTask('failure-corrected', task, { containerId, detail: `${free ? '(not counted after all) ' : ''}${sentence}` });
  transition.update(task.slot, {
    failure: sentence,
    failures: free ? Math.max(0, task.failures - 1) : task.failures,
    freeFailures: free ? task.freeFailures + 1 : task.freeFailures,
  });
  if (transition.state.firstFailure?.containerId === containerId) {
    transition.patch({ firstFailure: free ? null : { text: `${nameOf(task)}: ${sentence}`, containerId } });
  }
  if (free && inGang(task) && !isIndependentlyReplaceable(jobOf(transition.state), task.role))
    transition.patchGang({ fruitless: Math.max(0, (transition.gang?.fruitless ?? 0) - 1) });
  transition.dirty = true;
}

/**
 * Counts a failure that ends a generation. Returns the number of generations in a row without progress; 0 if the gang is already forming.
 */
function countFruitless(transition: Transition): number {
  const { gang, checkpointStep } = transition.state;
  if (gang === null || gang.phase === 'forming') return 0;
  const fruitful = checkpointStep > gang.startedFrom || transition.now - gang.since >= LIMITS.fruitfulMs;
  const fruitless = fruitful ? 0 : gang.fruitless + 1;
  transition.patchGang({ fruitless });
  return fruitless;
}

function costOf(state: JobState, task: Task, cause: Cause): Cost {
  const incident = state.gang?.incident ?? null;
  if (inGang(task) && incident !== null && state.now < incident.until && task.executor?.ranIn === incident.generation) return 'victim';
  switch (cause.kind) {
    case 'launch':
    case 'unheard':
    case 'gone':
      return 'free';
    case 'container':
      return isFree(cause.end) ? 'free' : 'charged';
    case 'program':
    case 'silent':
    case 'stopped':
    case 'unanswered':
    case 'inconsistent':
    case 'blamed':
      return 'charged';
  }
}

/** Silence or death by a signal may be caused by a preempted container or a lost node, which the cluster reports later. */
function judgedByLooks(cause: Cause): boolean {
  return cause.kind === 'silent' || cause.kind === 'unanswered' || (cause.kind === 'program' && cause.exit.code === -1);
}

function speaksAgainstNode(cause: Cause): boolean {
  switch (cause.kind) {
    case 'container':
      return cause.end !== 'preempted' && cause.end !== 'memory-exceeded' && cause.end !== 'stopped-by-master' && cause.end !== 'released';
    case 'gone':
    case 'blamed':
      return false;
    case 'program':
    case 'launch':
    case 'silent':
    case 'stopped':
    case 'unanswered':
    case 'inconsistent':
    case 'unheard':
      return true;
  }
}

function wasStarted(task: Task): boolean {
  return (task.executor?.ranIn ?? 0) > 0;
}

/**
 * Why the task is not restarted, as the middle of a sentence; null if it is restarted.
 * - `task`: this task has used up its restarts; the others may continue without it.
 * - `job`: the gang as a whole has used up its restarts.
 */
function finality(
  task: Task,
  cost: Cost,
  counts: { failures: number; freeFailures: number; unstarted: number; fruitless: number },
): { readonly kind: 'task' | 'job'; readonly text: string } | null {
  const { policy, maxRestarts } = task.role.restart;
  // A bug that hits one task after the other must not use up all tasks of an elastic role.
  const inVain = isElastic(task.role) ? Math.max(maxRestarts, LIMITS.rounds) : maxRestarts;
  const own = (text: string) => ({ kind: 'task', text }) as const;
  const together = { kind: 'job', text: `failed, as did ${inVain} generations before, without a new checkpoint` } as const;
  if (counts.fruitless > inVain && isElastic(task.role)) return together;
  if (cost === 'charged' && (policy === 'never' || maxRestarts === 0)) return own('failed and is not to be restarted');
  if (policy === 'never' && cost !== 'victim' && wasStarted(task))
    return own('was lost after its program had started and is not to be restarted');
  if (counts.failures > maxRestarts && cost === 'charged')
    return own(`failed ${counts.failures} times, ${maxRestarts} restart${maxRestarts === 1 ? ' is' : 's are'} allowed`);
  if (counts.fruitless > inVain) return together;
  if (counts.unstarted >= LIMITS.unstarted) return own(`could not be started ${counts.unstarted} times in a row`);
  if (counts.freeFailures >= LIMITS.freeFailures) return own(`lost its container ${counts.freeFailures} times`);
  return null;
}

/** The delay before the next request of a task whose containers fail before a program starts in them, in ms. */
function backOff(unstarted: number): number {
  return backoffMs(unstarted - 2, { firstMs: 1_000, mostMs: 30_000 });
}

function failureDiagnostics(state: JobState, task: Task, end: string, sentence: string, stderr: string): string {
  const first = state.firstFailure;
  const own = `${nameOf(task)}: ${sentence}${stderr}`;
  const earlier =
    first === null || first.text === own
      ? ''
      : `\nThe job's first failure: ${first.text.startsWith(`${nameOf(task)}: ${sentence}`) ? oneLine(first.text.split('\n')[0] ?? '') : first.text}`;
  const next = stderr === '' ? ` Its log: tony-ts logs ${state.frozen.applicationId} ${nameOf(task)}` : '';
  return `${nameOf(task)} ${end}: ${sentence}.${next}${stderr}${earlier}`;
}
