import { formatDuration } from '../../conf/values/units.ts';
import { forgiveNodes } from './container-requests.ts';
import { chaseEnding, giveBack } from './ending.ts';
import { decide } from './finish.ts';
import { extraTasksInTheWay, shrinkFor } from './growth.ts';
import { watchIncompleteGang } from './incomplete-gang.ts';
import { describeMissing } from './pending-reasons.ts';
import { detectLostTasks, failTask, newGeneration } from './recovery.ts';

import { isOver, jobOf, LIMITS, nameOf, type Task } from './state/job-state.ts';
import { isElastic, isExpendable, isMember, restartsAlone } from './state/membership.ts';
import { spareTasksInTheWay } from './state/spare-task.ts';
import { heartbeatIntervalMs, silenceMs } from './state/timeouts.ts';
import type { Transition } from './state/transition.ts';

export function watch(transition: Transition): void {
  chaseEnding(transition);
  // A job that must not request containers yet does not have any tasks to monitor, and its timeouts are suspended.
  if (transition.state.decision !== null || transition.state.admission.held !== null) {
    return;
  }
  endOverdueJob(transition);
  endIdleJob(transition);
  detectLostTasks(transition);
  forgiveNodes(transition);
  for (const task of spareTasksInTheWay(transition.state)) {
    giveBack(transition, task, 'other tasks wait for a container');
  }
  for (const task of extraTasksInTheWay(transition.state)) {
    giveBack(transition, task, 'another task needs its resources');
  }
  for (const { slot } of transition.state.tasks) {
    endLoneRound(transition, slot);
  }
  watchIncompleteGang(transition);
}

/**
 * Returns true if the gap between events shows that this ApplicationMaster was stalled. In that case, the gap does not count as executor
 * silence.
 */
export function isStall(transition: Transition, before: number): boolean {
  const job = jobOf(transition.state);
  return transition.now - before > Math.max(heartbeatIntervalMs(job) * 2, silenceMs(job) / 2);
}

function endOverdueJob(transition: Transition): void {
  const ran = transition.now - transition.state.startedAt;
  const { timeoutMs } = jobOf(transition.state);
  const { timeout } = transition.state.admission.limits;
  if (timeoutMs !== null && ran >= timeoutMs) {
    fail(
      transition,
      `The job ran longer than its timeout of ${formatDuration(timeoutMs)}. Raise timeout in job.yaml, or reduce the job's work.`,
    );
  } else if (timeout !== null && ran >= timeout.ms) {
    fail(
      transition,
      `The job ran longer than the ${formatDuration(timeout.ms)} that ${timeout.path} in the site file allows. Its checkpoints are kept.`,
    );
  }
}

function endIdleJob(transition: Transition): void {
  const { admission, busyAt, decision, tasks } = transition.state;
  if (decision !== null) {
    return;
  }
  const { idle } = admission.limits;
  // A job without running programs is not idle, because it waits for containers.
  if (!tasks.some((task) => task.state === 'running')) {
    transition.patch({ busyAt: transition.now });
  } else if (idle !== null && transition.now - busyAt >= idle.ms) {
    fail(
      transition,
      `The job was idle for ${formatDuration(idle.ms)}: none of its programs computed or reported anything (${idle.path} in the site file).`,
    );
  }
}

function fail(transition: Transition, diagnostics: string): void {
  decide(transition, { state: 'failed', message: diagnostics });
}

/**
 * Handles a task that restarts alone and was not ready in time. Only this task gives up its container, because no other task depends on it.
 */
function endLoneRound(transition: Transition, slot: number): void {
  const task = transition.task(slot);
  const { timeoutMs } = jobOf(transition.state).gang;
  if (
    !restartsAlone(transition.state, task) ||
    transition.state.cluster.registration === null ||
    transition.state.decision !== null ||
    isOver(task) ||
    task.wait.held
  ) {
    return;
  }
  if (task.role.spare && task.container === null) {
    return;
  }
  if (
    task.executor !== null ||
    typeof task.container?.reattachBy === 'number' ||
    transition.now - Math.max(task.wait.since, task.wait.notBefore) < timeoutMs
  ) {
    return;
  }
  if (isElastic(task.role) && (!isMember(task) || (task.container === null && isExpendable(transition.state, task)))) {
    goOnWithout(transition, task);
    return;
  }
  const rounds = task.wait.rounds + 1;
  const sentence = describeMissing(transition.state, [task]);
  transition.recordTask('wait-timeout', task, { message: sentence });
  transition.update(slot, { wait: { rounds } });
  if (task.container === null && shrinkFor(transition, task)) {
    transition.update(slot, { wait: { since: transition.now, rounds: 0 } });
    return;
  }
  if (rounds >= LIMITS.rounds && task.role.kind !== 'sidecar') {
    const diagnostics = `${nameOf(task)} was not ready within ${formatDuration(timeoutMs)}, ${rounds} times in a row. ${sentence}`;
    decide(transition, { state: 'failed', message: diagnostics }, { role: task.role.name, index: task.index, why: 'late' });
  } else if (task.container !== null) {
    failTask(transition, slot, { kind: 'unheard', ms: timeoutMs });
  } else {
    transition.update(slot, { wait: { since: transition.now } });
  }
}

/** Optional tasks do not block the job. If a member in an elastic role cannot be replaced, the gang shrinks. */
function goOnWithout(transition: Transition, task: Task): void {
  const { timeoutMs } = jobOf(transition.state).gang;
  transition.update(task.slot, { wait: { since: transition.now } });
  if (task.container !== null) {
    failTask(transition, task.slot, { kind: 'unheard', ms: timeoutMs });
  } else if (isMember(task)) {
    newGeneration(transition, { incidentUntil: null, why: `the cluster has no room for ${nameOf(task)}` });
  }
}
