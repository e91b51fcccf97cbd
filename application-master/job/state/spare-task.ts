import { backoffMs } from '../../../platform/async/backoff.ts';
import { isOver, LIMITS, type MachineState, type Task } from './job-state.ts';
import { awaitedTasks, restartsAlone } from './membership.ts';

// Tasks of spare roles use only spare capacity. They give up their containers if another task waits for one, and their failures do not
// affect the job.

/** Returns the tasks that the job currently needs. */
function others(state: MachineState): Task[] {
  return awaitedTasks(state).filter((task) => !task.role.spare);
}

export function othersRun(state: MachineState): boolean {
  if (state.gang !== null && state.gang.phase !== 'started') {
    return false;
  }
  return others(state).every((task) => task.state === 'running' || isOver(task));
}

/** Returns the spare tasks that must give up their containers, because another task has waited too long for one. */
export function spareTasksInTheWay(state: MachineState): Task[] {
  if (state.cluster.registration === null || state.decision !== null) {
    return [];
  }
  const holding = state.tasks.filter((task) => task.container !== null && task.role.spare);
  if (holding.length === 0) {
    return [];
  }
  return others(state).some((task) => task.state === 'requested' && waitedMs(state, task) >= LIMITS.yieldMs) ? holding : [];
}

function waitedMs(state: MachineState, task: Task): number {
  const { gang } = state;
  const since = restartsAlone(state, task) || gang === null ? task.wait.since : Math.max(gang.since, gang.notBefore);
  return state.now - Math.max(since, task.wait.notBefore);
}

/**
 * Returns the number of consecutive failures, including this one. If the task ran long enough before this failure, the number is 1
 * again.
 */
export function failuresInARow(state: MachineState, task: Task): number {
  // `wait.since` is the time at which the container was allocated.
  return state.now - task.wait.since >= LIMITS.spareSteadyMs ? 1 : task.failures.inARow + 1;
}

/** Returns the pause in ms before the next restart of a spare task. The pause doubles up to a maximum. The number of restarts is unlimited. */
export function sparePause(count: number): number {
  return backoffMs(count, { firstMs: 1_000, mostMs: LIMITS.sparePauseMs });
}
