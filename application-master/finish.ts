import type { JobResult } from '../conf/status.ts';
import { isCompanion } from './companion.ts';
import { detach } from './ending.ts';
import { isOver, LIMITS } from './job-state.ts';
import { isElastic, isMember } from './membership.ts';
import { isChief } from './ranks.ts';
import type { Turn } from './turn.ts';

/** The first word is the last: what comes after a decision does not change it. */
export function decide(turn: Turn, result: JobResult): void {
  if (turn.state.result !== null) return;
  turn.patch({ result, decidedAt: turn.now, decidedIn: turn.state.revision + 1 });
  turn.dirty = true;
  for (const task of turn.state.tasks) if (!isOver(task)) turn.update(task.slot, { state: 'stopped' });
}

/** All tracked tasks, or the chief alone, as the job says. */
export function decideSuccess(turn: Turn): void {
  const { tasks, frozen, gang } = turn.state;
  // Of an elastic role, those of the generation that runs.
  if (gang !== null && gang.phase !== 'started' && frozen.job.roles.some(isElastic)) return;
  const deciding =
    frozen.job.success === 'chief'
      ? tasks.filter(isChief)
      : tasks.filter((task) => task.role.tracking === 'tracked' && (!isElastic(task.role) || isMember(task)));
  if (deciding.length > 0 && deciding.every((task) => task.state === 'succeeded'))
    decide(turn, { state: 'SUCCEEDED', diagnostics: turn.state.earlyEnd ?? '' });
}

/**
 * First the result is saved, so that a second attempt does not take for lost what was stopped on purpose; then the orders to stop go
 * out; then programs get a moment to end. A storage or a program that does not answer holds up the end for a while only.
 */
export function finish(turn: Turn): void {
  const { result, finished, registration, durable, decidedAt, decidedIn } = turn.state;
  if (result === null || finished || registration === null) return;
  if (turn.state.stoppedAt === null) {
    if (durable < decidedIn && turn.now < decidedAt + LIMITS.saveMs) return;
    stopAll(turn, result);
  }
  const draining = [...turn.state.ending.values()].filter((each) => each.drains);
  if (draining.length > 0 && turn.now < (turn.state.stoppedAt ?? turn.now) + LIMITS.drainMs) return;
  for (const each of draining) turn.act({ type: 'stop-container', containerId: each.containerId });
  turn.patch({ finished: true });
  turn.record('job-finished', { detail: result.diagnostics === '' ? result.state : `${result.state}: ${result.diagnostics}` });
  turn.act({ type: 'finish', result });
}

function stopAll(turn: Turn, result: JobResult): void {
  const reason =
    result.state === 'SUCCEEDED' ? 'the job has succeeded' : result.state === 'KILLED' ? 'the job is killed' : 'the job has failed';
  turn.patch({ stoppedAt: turn.now });
  for (const { slot, container, role } of turn.state.tasks) {
    // A companion has nothing to save that the end would wait for.
    if (container !== null) detach(turn, slot, isCompanion(turn.state.frozen.job, role) ? 'stop' : 'drain', reason);
  }
}
