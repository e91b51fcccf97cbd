import { isTracked, type Job, type Role } from '../../../conf/job.ts';
import { inGang } from '../../../conf/role-conditions.ts';
import { backoffMs } from '../../../platform/async/backoff.ts';
import { currentGeneration, isOver, isReady, jobOf, LIMITS, type MachineState, type Task } from './job-state.ts';
import { isChief } from './ranks.ts';

// A generation's members are the ranked tasks and the parameter servers. An elastic role contributes all of its available tasks, but at
// least its minimum number.

/** Returns true if the task is a member of the newest generation that has been selected or started. */
export function isMember(task: Task): boolean {
  return task.role.servesParameters || task.rank !== null;
}

export function gangTasks(state: MachineState): Task[] {
  return state.tasks.filter(({ role }) => inGang(role));
}

/** Returns true if all programs that train together have ended for good. A job without such programs does not train. */
export function hasTrainingEnded(state: MachineState): boolean {
  return gangTasks(state).every(isOver);
}

export function memberTasks(state: MachineState): Task[] {
  return state.tasks.filter(isMember);
}

/** Returns the number of a member in lost-peer reports: its rank, or, for a parameter server, a number after the workers' ranks. */
export function peerNumber(members: readonly Task[], { rank, index }: Task): number {
  return rank ?? members.filter((member) => member.rank !== null).length + index;
}

/**
 * Returns true if a failed worker is replaced while the other workers continue. This is possible with parameter servers, because workers
 * then do not connect to each other.
 */
export function isIndependentlyReplaceable(job: Job, role: Role): boolean {
  return role.kind === 'gang' && job.roles.some(({ servesParameters }) => servesParameters);
}

/** Returns true if the running generation continues after the task has failed. */
export function restartsAlone(state: MachineState, task: Task): boolean {
  if (!inGang(task.role)) {
    return true;
  }
  if (state.gang?.phase === 'forming') {
    return false;
  }
  return !isMember(task) || isIndependentlyReplaceable(jobOf(state), task.role);
}

export function isElastic(role: Role): boolean {
  return role.maxInstances > role.instances;
}

/** Formats the allowed number of tasks as a range, for example `2..8`. */
export function describeRange(role: Role): string {
  return `${role.instances}..${role.maxInstances}`;
}

export function elasticRole(job: Job): Role | null {
  return job.roles.find(isElastic) ?? null;
}

/**
 * Returns the elastic role's tasks that need a container for the next generation: the chief, and as many other tasks as the minimum
 * requires.
 */
export function lackingTasks(state: MachineState, eligible: (task: Task) => boolean = () => true): Task[] {
  const role = elasticRole(jobOf(state));
  if (role === null) {
    return [];
  }
  const tasks = state.tasks.filter((task) => task.role === role && !isOver(task));
  const needed = role.instances - tasks.filter(({ container }) => container !== null).length;
  const lacking: Task[] = [];
  for (const task of tasks) {
    if (task.container === null && eligible(task) && (isChief(task) || lacking.length < needed)) {
      lacking.push(task);
    }
  }
  return lacking;
}

/** Returns the tasks that the job currently needs. Excludes tasks that wait for other roles, and optional tasks that are not in use. */
export function awaitedTasks(state: MachineState): Task[] {
  const forming = state.gang?.phase === 'forming';
  const lacking = new Set(forming ? lackingTasks(state) : []);
  return state.tasks.filter((task) => {
    if (!isElastic(task.role) || task.wait.held) {
      return !task.wait.held;
    }
    return forming ? task.container !== null || lacking.has(task) : isMember(task);
  });
}

/** Returns true if the job can continue without this task because its elastic role still has enough other tasks. */
export function isExpendable(state: MachineState, task: Task): boolean {
  if (!isElastic(task.role) || isChief(task)) {
    return false;
  }
  const others = state.tasks.filter((each) => each.role === task.role && each !== task && each.state !== 'failed' && each.state !== 'lost');
  return others.length >= task.role.instances;
}

/**
 * Returns true if the job continues after this task has used all its restarts. This is the case if enough other tasks remain, or if the
 * chief alone decides the result (`successPolicy: chief` or `ended`). The job always needs its parameter servers, because they store the weights.
 */
export function canBeGivenUp(state: MachineState, task: Task): boolean {
  const { successPolicy } = jobOf(state);
  const { restart, servesParameters } = task.role;
  const mayFail = successPolicy === 'chief' || (successPolicy === 'ended' && isTracked(task.role) && restart.policy === 'on-failure');
  const shielded = mayFail && !isChief(task) && !servesParameters && state.tasks.some(isChief);
  return shielded || isExpendable(state, task);
}

/** Returns true if the task has used all its restarts or was lost permanently. */
export function isGivenUp(task: Task): boolean {
  return task.state === 'failed' || task.state === 'lost';
}

/** Returns the tasks that the next generation needs but that are not ready yet. */
export function missingTasks(state: MachineState): Task[] {
  const generation = currentGeneration(state);
  const late = gangTasks(state).filter((task) => !isOver(task) && !isReady(task, generation));
  const role = elasticRole(jobOf(state));
  if (role === null) {
    return late;
  }
  const needed = role.instances - state.tasks.filter((task) => task.role === role && isReady(task, generation)).length;
  const missing: Task[] = [];
  let elastic = 0;
  for (const task of late) {
    if (task.role !== role) {
      missing.push(task);
    } else if (isChief(task) || elastic < needed) {
      missing.push(task);
      elastic++;
    }
  }
  return missing;
}

/** Returns true if the task's earlier program may still be in its grace period, so that the task cannot be ready for the next generation. */
export function isInGracePeriod({ now }: Pick<MachineState, 'now'>, { executor, role }: Task): boolean {
  const { awaiting } = executor ?? {};
  return awaiting?.answer === 'ready' && now - awaiting.since <= role.gracePeriodMs;
}

/** Returns true if the job should request extra containers now, because it may grow soon (see `LIMITS.growAskMs`). */
export function mayGrowSoon(state: MachineState): boolean {
  const { gang, training, now, admission } = state;
  if (!admission.limits.mayGrow) {
    return false;
  }
  if (gang?.phase !== 'started' || training.checkpointStep === 0 || elasticRole(jobOf(state)) === null) {
    return false;
  }
  const ready = now - gang.since - growPause(gang.growths) / 2;
  return ready >= 0 && ready % LIMITS.growAskEveryMs < LIMITS.growAskMs && isInFullSwing(state);
}

/** Returns true if all members are running and no member is about to finish. */
export function isInFullSwing(state: MachineState): boolean {
  return memberTasks(state).every(
    ({ state: now, executor }) => now === 'running' && executor?.pendingExit === null && executor.lostRank === null && !executor.ending,
  );
}

/** Returns how long a generation must run before the job may grow, in ms. */
export function growPause(growths: number): number {
  return backoffMs(growths + 1, { firstMs: LIMITS.growMs, mostMs: LIMITS.longestGrowMs });
}
