import { type Job, type Role, TENSORBOARD_ROLE } from '../conf/job.ts';
import { isOver, type JobState, jobOf, LIMITS, type Task } from './job-state.ts';
import { awaitedTasks, restartsAlone } from './membership.ts';

// The TensorBoard that comes with a job: a companion. It takes what is left over: no task waits for a container while it has one, and nothing
// that becomes of it becomes of the job.

export function isCompanion(job: Job, role: Role): boolean {
  return job.tensorboard.serve && role.name === TENSORBOARD_ROLE && role.tracking === 'sidecar' && !role.ranked;
}

/** But for those that an elastic job can do without. */
function others(state: JobState): Task[] {
  return awaitedTasks(state).filter((task) => !isCompanion(jobOf(state), task.role));
}

/** All others have what they need. */
export function othersRun(state: JobState): boolean {
  if (state.gang !== null && state.gang.phase !== 'started') return false;
  return others(state).every((task) => task.state === 'running' || isOver(task));
}

/** Those whose containers others may have been waiting for all along. */
export function companionsInTheWay(state: JobState): Task[] {
  if (state.registration === null || state.result !== null) return [];
  const holding = state.tasks.filter((task) => task.container !== null && isCompanion(jobOf(state), task.role));
  if (holding.length === 0) return [];
  return others(state).some((task) => task.state === 'requested' && waitedMs(state, task) >= LIMITS.yieldMs) ? holding : [];
}

function waitedMs(state: JobState, task: Task): number {
  const { gang } = state;
  const since = restartsAlone(state, task) || gang === null ? task.waitingSince : Math.max(gang.since, gang.notBefore);
  return state.now - Math.max(since, task.notBefore);
}

/** How often it has fallen in a row; one that has run for a while has not fallen before. */
export function falls(state: JobState, task: Task): number {
  // Since its container was there.
  return state.now - task.waitingSince >= LIMITS.companionSteadyMs ? 1 : task.falls + 1;
}

/** It comes back without end, but not faster than is of use. */
export function companionPause(count: number): number {
  return Math.min(LIMITS.companionPauseMs, 1_000 * 2 ** Math.min(count - 1, 10));
}
