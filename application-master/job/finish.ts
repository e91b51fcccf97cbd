import { isTracked } from '../../conf/job.ts';
import type { JobResult } from '../../conf/status/status.ts';
import { ask } from './container-requests.ts';
import { detach } from './ending.ts';
import type { DecisiveTask } from './state/decisive-task.ts';
import { hasEnded, isOver, LIMITS } from './state/job-state.ts';
import { isElastic, isGivenUp, isMember } from './state/membership.ts';
import { isChief } from './state/ranks.ts';
import type { Transition } from './state/transition.ts';

export function decide(transition: Transition, result: JobResult, task: DecisiveTask | null = null): void {
  if (transition.state.decision !== null) {
    return;
  }
  transition.patch({ decision: { result, task, at: transition.now, revision: transition.nextRevision, stoppedAt: null, finished: false } });
  transition.dirty = true;
  for (const task of transition.state.tasks) {
    if (!isOver(task)) {
      transition.update(task.slot, { state: 'stopped' });
    }
  }
}

/**
 * Ends the job as succeeded when all tracked tasks have ended. With `successPolicy: chief`, only the chief must have finished. With
 * `successPolicy: ended`, tasks that the job continues without have ended, too.
 */
export function decideSuccess(transition: Transition): void {
  const { tasks, frozen, gang } = transition.state;
  // In an elastic role, only the members of the running generation count.
  if (gang !== null && gang.phase !== 'started' && frozen.job.roles.some(isElastic)) {
    return;
  }
  const deciding =
    frozen.job.successPolicy === 'chief'
      ? tasks.filter(isChief)
      : tasks.filter((task) => isTracked(task.role) && (!isElastic(task.role) || isMember(task)));
  if (
    deciding.length > 0 &&
    deciding.every((task) => hasEnded(task) || (frozen.job.successPolicy === 'ended' && isGivenUp(task) && !isChief(task)))
  ) {
    decide(transition, { state: 'succeeded', message: transition.state.training.earlyEnd ?? '' });
  }
}

/**
 * Ends the job in three steps. First, the result is saved, so that a later attempt does not consider stopped tasks lost. Then, containers
 * receive stop orders. Finally, programs get their grace periods to exit. Every step has a timeout, because storage may be unavailable and
 * programs may not exit.
 */
export function finish(transition: Transition): void {
  const { decision, cluster, revisions } = transition.state;
  if (decision === null || decision.finished || cluster.registration === null) {
    return;
  }
  ask(transition);
  const { result } = decision;
  if (decision.stoppedAt === null) {
    if (revisions.durable < decision.revision && transition.now < decision.at + LIMITS.saveMs) {
      return;
    }
    stopAll(transition, result);
  }
  const stopping = { ...decision, stoppedAt: decision.stoppedAt ?? transition.now };
  transition.patch({ decision: stopping });
  const draining = [...transition.state.ending.values()].filter((each) => each.drains);
  const graces = draining.map((each) => transition.state.frozen.job.roles.find(({ name }) => name === each.role)?.gracePeriodMs ?? 0);
  if (draining.length > 0 && transition.now < stopping.stoppedAt + Math.max(...graces) + LIMITS.drainMs) {
    return;
  }
  for (const each of draining) {
    transition.act({ type: 'stop-container', containerId: each.containerId });
  }
  transition.patch({ decision: { ...stopping, finished: true } });
  transition.record('job-finished', { state: result.state, ...(result.message === '' ? {} : { message: result.message }) });
  transition.act({ type: 'finish', result });
}

function stopAll(transition: Transition, result: JobResult): void {
  const reason =
    result.state === 'succeeded' ? 'the job has succeeded' : result.state === 'killed' ? 'the job was killed' : 'the job has failed';
  for (const { slot, container, role } of transition.state.tasks) {
    // Do not wait for spare tasks, because they have no state to save.
    if (container !== null) {
      detach(transition, slot, role.spare ? 'stop' : 'leave', reason);
    }
  }
}
