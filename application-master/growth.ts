import { giveBack } from './asks.ts';
import { isCompanion } from './companion.ts';
import { newGeneration } from './gang.ts';
import { isOver, type JobState, jobOf, LIMITS, nameOf, type Task } from './job-state.ts';
import { awaitedTasks, elasticRole, isMember, memberTasks } from './membership.ts';
import { isChief } from './ranks.ts';
import type { Turn } from './turn.ts';

// An elastic job takes more tasks when the cluster has room: their containers wait, idle, until a checkpoint makes a new generation cheap.
// Each growth costs all of them a start, so that it must not follow too closely on the one before.

/** Containers that come now can be made use of before long, and it is the time to ask. */
export function mayGrowSoon(state: JobState): boolean {
  const { gang, checkpointStep, now, limits } = state;
  if (!limits.mayGrow) return false;
  // A job that makes no checkpoints never comes to the place where it may grow.
  if (gang?.phase !== 'started' || checkpointStep === 0 || elasticRole(jobOf(state)) === null) return false;
  const ready = now - gang.since - growPause(gang.growths) / 2;
  return ready >= 0 && ready % LIMITS.growAskEveryMs < LIMITS.growAskMs && isInFullSwing(state);
}

/** Nobody has ended, or is about to. */
function isInFullSwing(state: JobState): boolean {
  return memberTasks(state).every(({ state: now, pendingExit, executor }) => {
    return now === 'running' && pendingExit === null && executor?.lostRank === null && !executor.ending;
  });
}

/** At a checkpoint: those who have come since the generation started are taken into the next. */
export function grow(turn: Turn): void {
  const { gang, now } = turn.state;
  if (!turn.checkpointed || gang === null) return;
  const before = gang.checkpointAt;
  turn.patchGang({ checkpointAt: now });
  if (gang.phase !== 'started' || now - gang.since < growPause(gang.growths)) return;
  const newcomers = turn.state.tasks.filter((task) => !isMember(task) && waitsForGrowth(turn.state, task));
  if (newcomers.length === 0 || !isInFullSwing(turn.state)) return;
  // The next checkpoint is not far, and then they all come at once.
  const soon = before !== null && now - before < LIMITS.arrivingMs;
  if (soon && turn.state.tasks.some((task) => !isMember(task) && isArriving(turn.state, task))) return;
  turn.patchGang({ growths: now - gang.since >= LIMITS.fruitfulMs ? 1 : gang.growths + 1 });
  newGeneration(turn, { incidentUntil: null, why: `there is room for more: ${newcomers.map(nameOf).join(', ')}` });
}

/** Those who wait for growth stand in the way of one that the job needs, and that waits for a container. */
export function sparesInTheWay(state: JobState): Task[] {
  const role = elasticRole(jobOf(state));
  if (state.gang?.phase !== 'started' || role === null) return [];
  const spares = state.tasks.filter((task) => task.role === role && !isMember(task) && task.container !== null);
  if (spares.length === 0) return [];
  const waits = (task: Task) => task.state === 'requested' && !isCompanion(jobOf(state), task.role);
  const since = (task: Task) => Math.max(task.waitingSince, task.notBefore);
  return awaitedTasks(state).some((task) => waits(task) && state.now - since(task) >= LIMITS.yieldMs) ? spares : [];
}

/** One that the job needs has found no room for long: one that it can do without goes. False when there is none. */
export function shrinkFor(turn: Turn, needy: Task): boolean {
  const role = elasticRole(jobOf(turn.state));
  if (turn.gang?.phase !== 'started' || role === null || needy.role.tracking === 'sidecar') return false;
  const members = turn.state.tasks.filter((task) => task.role === role && isMember(task));
  const last = members.findLast((task) => task.container !== null && !isChief(task));
  if (members.length <= role.instances || last === undefined) return false;
  giveBack(turn, last, `${nameOf(needy)} needs the room`);
  newGeneration(turn, { incidentUntil: null, why: `${nameOf(last)} gives its room to ${nameOf(needy)}` });
  return true;
}

function waitsForGrowth(state: JobState, task: Task): boolean {
  const { executor } = task;
  return (
    task.role === elasticRole(jobOf(state)) &&
    state.durable >= task.savedIn &&
    executor?.attached === true &&
    executor.program === null &&
    executor.awaiting === null &&
    executor.port > 0
  );
}

function isArriving(state: JobState, task: Task): boolean {
  return (
    task.role === elasticRole(jobOf(state)) &&
    task.container !== null &&
    !isOver(task) &&
    task.executor === null &&
    state.now - task.waitingSince < LIMITS.arrivingMs
  );
}

function growPause(growths: number): number {
  return Math.min(LIMITS.longestGrowMs, LIMITS.growMs * 2 ** Math.min(growths, 10));
}
