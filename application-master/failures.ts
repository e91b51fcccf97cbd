import { companionPause, falls, isCompanion } from './companion.ts';
import { type Detachment, detach, isFree } from './ending.ts';
import { decide } from './finish.ts';
import { newGeneration } from './gang.ts';
import { type JobState, jobOf, LIMITS, nameOf, type Task } from './job-state.ts';
import { inGang, isElastic, isExpendable, isLoose, isMember, restartsAlone } from './membership.ts';
import { graceMs } from './pace.ts';
import { type Cause, describeCause, describeStderr, oneLine } from './sentences.ts';
import type { Turn } from './turn.ts';

/**
 * What a failure costs. `charged`: one of the task's restarts. `free`: nothing, the cluster did it. `victim`: nothing, the task
 * died of another's failure that has been counted.
 */
type Cost = 'charged' | 'free' | 'victim';

/**
 * A task's life in its container is over before its time. Its container goes, and it is asked for again where its role's restart
 * budget allows; where not, the job fails (or a sidecar stays away).
 *
 * `maxRestarts` counts for each task by itself: in a role of a hundred, a hundred machines may each fail once. It also bounds how often
 * in a row a gang may be started in vain: a mistake that strikes any of a hundred first is one mistake. Nothing gives spent restarts
 * back but the cluster's own word that it was to blame.
 */
export function failTask(turn: Turn, slot: number, cause: Cause, how: Detachment = 'stop'): void {
  const task = turn.task(slot);
  const { state } = turn;
  // What has succeeded, or belongs to a job that is over, has no more failures.
  if (task.state === 'succeeded' || state.result !== null) {
    detach(turn, slot, how, 'it is no longer needed');
    return;
  }
  const cost = costOf(state, task, cause);
  const node = task.container?.node ?? null;
  const sentence = describeCause(cause, task.role, node);
  const refundable = cost === 'charged' && judgedByLooks(cause);
  const containerId = task.container?.id ?? null;
  turn.recordTask('task-failed', task, {
    generation: task.generation,
    detail: `${cost === 'charged' ? '' : cost === 'free' ? '(not counted: the cluster) ' : '(not counted: it lost its peers) '}${sentence}${describeStderr(cause)}`,
  });
  detach(turn, slot, how, 'its task has failed', refundable);
  const failures = task.failures + (cost === 'charged' ? 1 : 0);
  const freeFailures = task.freeFailures + (cost === 'charged' ? 0 : 1);
  const unstarted = wasStarted(task) ? 0 : task.unstarted + 1;
  const companion = isCompanion(jobOf(state), task.role);
  const alone = restartsAlone(state, task);
  const fruitless = cost === 'charged' && !alone ? countFruitless(turn) : 0;
  turn.update(slot, {
    failures,
    freeFailures,
    unstarted,
    failure: `${sentence}${describeStderr(cause)}`,
    exitCode: cause.kind === 'program' ? cause.exit.code : task.exitCode,
    failedNodes:
      node !== null && !companion && cost !== 'victim' && speaksAgainstNode(cause)
        ? [...task.failedNodes, node].slice(-LIMITS.notices)
        : task.failedNodes,
    launchFailure: cause.kind === 'launch' || cause.kind === 'unheard' ? sentence : task.launchFailure,
  });
  turn.dirty = true;
  // What nobody misses is not what went wrong with the job.
  if (cost === 'charged' && state.firstFailure === null && task.role.tracking !== 'sidecar') {
    turn.patch({ firstFailure: { text: `${nameOf(task)}: ${sentence}${describeStderr(cause)}`, containerId } });
  }

  if (companion) {
    const count = falls(state, task);
    turn.update(slot, { state: 'requested', waitingSince: turn.now, falls: count, notBefore: turn.now + companionPause(count) });
    return;
  }
  const end = finality(task, cost, { failures, freeFailures, unstarted, fruitless });
  if (end !== null) {
    turn.update(slot, { state: cause.kind === 'program' ? 'failed' : 'lost' });
    // A ranked sidecar would leave a hole in the ring.
    if (task.role.tracking === 'sidecar' && !inGang(task)) return;
    if (end.kind === 'task' && isExpendable(turn.state, task)) {
      turn.recordTask('task-given-up', turn.task(slot), { detail: `it ${end.text}; enough others can be there` });
      // The others are fewer from now on, and have to know it, unless this one was not among them.
      if (isMember(task) && turn.gang?.phase !== 'forming') endGeneration(turn, task, 'is given up');
      return;
    }
    decide(turn, { state: 'FAILED', diagnostics: failureDiagnostics(turn.state, task, end.text, sentence, describeStderr(cause)) });
    return;
  }
  turn.update(slot, { state: 'requested', waitingSince: turn.now, notBefore: turn.now + backOff(unstarted) });
  if (!alone && turn.gang?.phase !== 'forming') endGeneration(turn, task, cost === 'charged' ? 'failed' : 'was lost');
}

function endGeneration(turn: Turn, task: Task, what: string): void {
  newGeneration(turn, { incidentUntil: turn.now + graceMs(jobOf(turn.state)), why: `${nameOf(task)} ${what}` });
}

/** The next charged failure of this task would end the job: worth a moment to hear what the cluster says of it. */
export function isLastStraw(state: JobState, task: Task): boolean {
  const { policy, maxRestarts } = task.role.restart;
  return policy === 'never' || task.failures >= maxRestarts || (!restartsAlone(state, task) && (state.gang?.fruitless ?? 0) >= maxRestarts);
}

/** The cluster's word on a container whose task was charged by looks: it was the cluster after all, or the memory limit. */
export function correctFailure(turn: Turn, containerId: string, cause: Extract<Cause, { kind: 'container' }>): void {
  const ending = turn.state.ending.get(containerId);
  if (ending?.refundable !== true) return;
  const task = turn.state.tasks.find((each) => each.role.name === ending.role && each.index === ending.index);
  if (task === undefined || (!isFree(cause.end) && cause.end !== 'memory-exceeded')) return;
  // `stopped-by-master` is our own doing by now, as is `released`.
  if (cause.end === 'stopped-by-master' || cause.end === 'released') return;
  const sentence = describeCause(cause, task.role, null);
  const free = isFree(cause.end);
  turn.recordTask('failure-corrected', task, { containerId, detail: `${free ? '(not counted after all) ' : ''}${sentence}` });
  turn.update(task.slot, {
    failure: sentence,
    failures: free ? Math.max(0, task.failures - 1) : task.failures,
    freeFailures: free ? task.freeFailures + 1 : task.freeFailures,
  });
  if (turn.state.firstFailure?.containerId === containerId) {
    turn.patch({ firstFailure: free ? null : { text: `${nameOf(task)}: ${sentence}`, containerId } });
  }
  if (free && inGang(task) && !isLoose(jobOf(turn.state), task.role))
    turn.patchGang({ fruitless: Math.max(0, (turn.gang?.fruitless ?? 0) - 1) });
  turn.dirty = true;
}

/** The failure ends a generation, unless the gang is being formed anyway. */
function countFruitless(turn: Turn): number {
  const { gang, checkpointStep } = turn.state;
  if (gang === null || gang.phase === 'forming') return 0;
  const fruitful = checkpointStep > gang.startedFrom || turn.now - gang.since >= LIMITS.fruitfulMs;
  const fruitless = fruitful ? 0 : gang.fruitless + 1;
  turn.patchGang({ fruitless });
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

/** Death by a signal or silence may be a preempted container or a lost node, of which the cluster tells later. */
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
 * Why there is no further restart, as the middle of a sentence; null when there is one. `task`: this one has used up what it has, others may
 * go on without it. `job`: so have all together.
 */
function finality(
  task: Task,
  cost: Cost,
  counts: { failures: number; freeFailures: number; unstarted: number; fruitless: number },
): { readonly kind: 'task' | 'job'; readonly text: string } | null {
  const { policy, maxRestarts } = task.role.restart;
  // A mistake that strikes one after the other is not to use up the whole of an elastic role.
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

/** A task whose containers fail before anything runs in them is not tried as fast as the cluster answers. */
function backOff(unstarted: number): number {
  return unstarted < 3 ? 0 : Math.min(30_000, 1_000 * 2 ** (unstarted - 3));
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
