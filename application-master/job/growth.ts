import { giveBack } from './ending.ts';
import { newGeneration } from './recovery.ts';
import { isOver, jobOf, LIMITS, type MachineState, nameOf, type Task } from './state/job-state.ts';
import { awaitedTasks, elasticRole, growPause, isInFullSwing, isMember } from './state/membership.ts';
import { isChief } from './state/ranks.ts';
import type { Transition } from './state/transition.ts';

// Elastic jobs grow when the cluster has free resources. Extra tasks wait for the next checkpoint, because restarting at that point does
// not lose any progress. A minimum interval limits the number of restarts.

/** Called at a checkpoint. Forms a new generation that includes the extra tasks that are waiting. */
export function grow(transition: Transition): void {
  const { gang, now } = transition.state;
  if (!transition.checkpointed || gang === null) {
    return;
  }
  const before = gang.checkpointAt;
  transition.patchGang({ checkpointAt: now });
  if (gang.phase !== 'started' || now - gang.since < growPause(gang.growths)) {
    return;
  }
  const newcomers = transition.state.tasks.filter((task) => !isMember(task) && waitsForGrowth(transition.state, task));
  if (newcomers.length === 0 || !isInFullSwing(transition.state)) {
    return;
  }
  // If checkpoints are frequent and more tasks are starting, wait for the next checkpoint, so that these tasks are included.
  const soon = before !== null && now - before < LIMITS.arrivingMs;
  if (soon && transition.state.tasks.some((task) => !isMember(task) && isArriving(transition.state, task))) {
    return;
  }
  transition.patchGang({ growths: now - gang.since >= LIMITS.fruitfulMs ? 1 : gang.growths + 1 });
  newGeneration(transition, { incidentUntil: null, why: `the cluster has room for ${newcomers.map(nameOf).join(', ')}` });
}

/**
 * If another task has waited for a container for longer than `LIMITS.yieldMs`, returns the extra tasks that have a container but are still
 * waiting for a checkpoint.
 */
export function extraTasksInTheWay(state: MachineState): Task[] {
  const role = elasticRole(jobOf(state));
  if (state.gang?.phase !== 'started' || role === null) {
    return [];
  }
  const extra = state.tasks.filter((task) => task.role === role && !isMember(task) && task.container !== null);
  if (extra.length === 0) {
    return [];
  }
  const waits = (task: Task) => task.state === 'requested' && !task.role.spare;
  const since = (task: Task) => Math.max(task.wait.since, task.wait.notBefore);
  return awaitedTasks(state).some((task) => waits(task) && state.now - since(task) >= LIMITS.yieldMs) ? extra : [];
}

/**
 * Removes an optional member from the elastic role, so that a required task can get its container. Returns false if there is no optional
 * member.
 */
export function shrinkFor(transition: Transition, needy: Task): boolean {
  const role = elasticRole(jobOf(transition.state));
  if (transition.gang?.phase !== 'started' || role === null || needy.role.kind === 'sidecar') {
    return false;
  }
  const members = transition.state.tasks.filter((task) => task.role === role && isMember(task));
  const last = members.findLast((task) => task.container !== null && !isChief(task));
  if (members.length <= role.instances || last === undefined) {
    return false;
  }
  giveBack(transition, last, `${nameOf(needy)} needs its resources`);
  newGeneration(transition, { incidentUntil: null, why: `${nameOf(last)} gives up its container for ${nameOf(needy)}` });
  return true;
}

function waitsForGrowth(state: MachineState, task: Task): boolean {
  const { container, executor } = task;
  return (
    container !== null &&
    task.role === elasticRole(jobOf(state)) &&
    state.revisions.durable >= container.savedRevision &&
    executor?.attached === true &&
    executor.program === null &&
    executor.awaiting === null &&
    executor.port > 0
  );
}

function isArriving(state: MachineState, task: Task): boolean {
  return (
    task.role === elasticRole(jobOf(state)) &&
    task.container !== null &&
    !isOver(task) &&
    task.executor === null &&
    state.now - task.wait.since < LIMITS.arrivingMs
  );
}
