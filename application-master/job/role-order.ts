import type { EndAfter, Role, RoleCondition } from '../../conf/job.ts';
import { conditionsOf, describeConditions, inGang } from '../../conf/role-conditions.ts';
import { formatDuration } from '../../conf/values/units.ts';
import { decide } from './finish.ts';
import { describeNewestFailure } from './pending-reasons.ts';
import { hasEnded, isOver, jobOf, type MachineState, nameOf, type Task } from './state/job-state.ts';
import { isElastic, isGivenUp, isMember } from './state/membership.ts';
import type { Transition } from './state/transition.ts';

// The `after` and `endAfter` options determine when roles start and end. With `after`, a role does not request containers until the named
// roles have reached a certain state. `endAfter` limits how long a role's tasks may run after the named roles have ended.

/** Ends the wait for each role that has already had a container, because such a role met its conditions in an earlier attempt. */
export function withoutStarted(tasks: readonly Task[]): Task[] {
  const hasStarted = (task: Task) =>
    tasks.some((each) => each.attempts > 0 && (each.role === task.role || (inGang(each.role) && inGang(task.role))));
  return tasks.map((task) => (task.wait.held && hasStarted(task) ? { ...task, wait: { ...task.wait, held: false } } : task));
}

/** Ends the wait for each role whose conditions are met. Fails the job if a role is waiting for tasks that have failed permanently. */
export function releaseRoles(transition: Transition): void {
  const { state } = transition;
  // Until this attempt has registered, it is unknown which containers of an earlier attempt are running.
  if (state.cluster.registration === null) {
    return;
  }
  for (const role of heldRoles(state)) {
    const conditions = conditionsOf(jobOf(state), role);
    const failed = conditions.flatMap((condition) => decidingTasks(state, condition)).find(isGivenUp);
    if (conditions.every((condition) => isMet(state, condition))) {
      release(transition, role, conditions);
    } else if (failed !== undefined && role.kind !== 'sidecar') {
      const diagnostics = `Role ${role.name} cannot start: it waits until ${describeConditions(conditions)}, but ${nameOf(failed)} has failed: ${describeNewestFailure(failed)}.`;
      decide(transition, { state: 'failed', message: diagnostics }, { role: failed.role.name, index: failed.index, why: 'awaited' });
      return;
    }
  }
}

export function recordHeldRoles(transition: Transition): void {
  for (const role of heldRoles(transition.state)) {
    const conditions = conditionsOf(jobOf(transition.state), role);
    transition.record('role-waits', { role: role.name, message: `until ${describeConditions(conditions)}` });
  }
}

function release(transition: Transition, role: Role, conditions: readonly RoleCondition[]): void {
  for (const task of transition.state.tasks) {
    if (task.role === role) {
      transition.update(task.slot, { wait: { held: false, since: transition.now, notBefore: transition.now } });
    }
  }
  if (inGang(role)) {
    transition.patchGang({ since: transition.now, notBefore: transition.now });
  }
  transition.record('role-released', { role: role.name, message: describeConditions(conditions) });
}

function isMet(state: MachineState, condition: RoleCondition): boolean {
  const tasks = decidingTasks(state, condition);
  if (condition.state === 'running') {
    return tasks.length > 0 && tasks.every((task) => hasEnded(task) || task.state === 'running');
  }
  return tasks.length > 0 && tasks.every(hasEnded) && !holdsContainers(state, condition.role);
}

/**
 * Returns true until the ResourceManager has reported that all of a role's containers have ended. For a ranked role, this means all of the
 * gang's containers. Until then, roles that wait for this role to end must not get containers, because quotas count only the maximum number
 * of containers that the job has at any one time (conf/role-stages.ts).
 */
function holdsContainers({ tasks, ending }: MachineState, name: string): boolean {
  const isRanked = tasks.some(({ role }) => role.name === name && role.kind === 'gang');
  const counts = (role: string) => role === name || (isRanked && tasks.some((task) => task.role.name === role && inGang(task.role)));
  return (
    tasks.some(({ role, container }) => container !== null && counts(role.name)) ||
    [...ending.values()].some(({ role, reported }) => reported === 'nothing' && counts(role))
  );
}

/**
 * Returns the tasks that must reach the state that a condition requires. If a ranked role must succeed, returns all ranked tasks, because
 * they all train again if one of them fails.
 */
function decidingTasks(state: MachineState, condition: RoleCondition): Task[] {
  const own = tasksOf(state, condition.role);
  if (condition.state === 'running' || !own.some(({ role }) => role.kind === 'gang')) {
    return own;
  }
  const others = state.tasks.filter((task) => task.role.name !== condition.role && task.rank !== null && !isGivenUp(task));
  return [...own, ...others];
}

/** Returns a role's tasks. For an elastic role, returns only the tasks in the newest generation. */
function tasksOf(state: MachineState, name: string): Task[] {
  return state.tasks.filter((task) => task.role.name === name && (!isElastic(task.role) || isMember(task)));
}

/** Records which roles have ended, and stops tasks that exceed their `endAfter` time limit. */
export function endFollowers(transition: Transition): void {
  const followers = jobOf(transition.state).roles.filter(({ endAfter }) => endAfter !== null);
  for (const name of new Set(followers.flatMap(({ endAfter }) => endAfter?.roles ?? []))) {
    noteEnd(transition, name);
  }
  for (const role of followers) {
    // Do not stop members while their gang is still forming.
    if (role.endAfter !== null && isDue(transition, role.endAfter) && (!inGang(role) || transition.gang?.phase === 'started')) {
      endRole(transition, role, role.endAfter);
    }
  }
}

function noteEnd(transition: Transition, name: string): void {
  const { roleEnds } = transition.state;
  const tasks = tasksOf(transition.state, name);
  const ended = tasks.length > 0 && tasks.every(isOver);
  if (ended === roleEnds.has(name)) {
    return;
  }
  const changed = new Map(roleEnds);
  if (ended) {
    changed.set(name, transition.now);
  } else {
    changed.delete(name);
  }
  transition.patch({ roleEnds: changed });
  transition.dirty = true;
}

function isDue({ state: { roleEnds }, now }: Transition, { roles, timeoutMs }: EndAfter): boolean {
  return roles.every((name) => now >= (roleEnds.get(name) ?? Number.POSITIVE_INFINITY) + timeoutMs);
}

function endRole(transition: Transition, role: Role, { roles, timeoutMs, late }: EndAfter): void {
  const names = `${roles.length === 1 ? 'role' : 'roles'} ${roles.join(' and ')}`;
  for (const task of transition.state.tasks.filter((each) => each.role === role && !isOver(each))) {
    if (late === 'fail') {
      const diagnostics = `${nameOf(task)} had not ended ${formatDuration(timeoutMs)} after the end of ${names}. Raise roles.${role.name}.endAfter.timeout, or set late: stop to stop such tasks.`;
      decide(transition, { state: 'failed', message: diagnostics }, { role: role.name, index: task.index, why: 'late' });
      return;
    }
    stopNormally(transition, task, `${names} had ended`);
  }
}

/**
 * Stops the parameter servers and the extra tasks of elastic roles once all ranked tasks have ended, even if other tasks, such as an
 * evaluator, are still running. Otherwise, a
 * server's failure would repeat training that has already succeeded.
 */
export function endServers(transition: Transition): void {
  const { tasks, gang } = transition.state;
  const ranked = tasks.filter(({ rank }) => rank !== null);
  if (gang === null || gang.phase === 'forming' || !ranked.every(isOver)) {
    return;
  }
  // Other roles may wait until an elastic role has no containers, so tasks that could only have joined a later generation stop too.
  const isSpare = (task: Task) => ranked.length > 0 && isElastic(task.role) && !isMember(task);
  for (const task of tasks.filter((each) => (each.role.servesParameters || isSpare(each)) && !isOver(each))) {
    stopNormally(transition, task, 'all ranked tasks had ended');
  }
}

function stopNormally(transition: Transition, task: Task, detail: string): void {
  transition.recordTask('task-stopped', task, { message: detail });
  transition.update(task.slot, { state: 'stopped' });
  transition.updateContainer(task.slot, { leaveRevision: transition.nextRevision });
  transition.dirty = true;
}

/** Returns one sentence for each role that is waiting for other roles. */
export function describeHeldRoles(state: MachineState): string[] {
  return heldRoles(state).map((role) => `Role ${role.name} waits until ${describeConditions(conditionsOf(jobOf(state), role))}.`);
}

function heldRoles(state: MachineState): Role[] {
  return jobOf(state).roles.filter((role) => state.tasks.some((task) => task.role === role && task.wait.held));
}

/** Returns a sentence for each role that is waiting for this task, or an empty string if there is none. */
export function describeWaitingRoles(state: MachineState, task: Task): string {
  return heldRoles(state)
    .map((role) => ({ role, conditions: conditionsOf(jobOf(state), role) }))
    .filter(({ conditions }) => conditions.some((condition) => condition.role === task.role.name))
    .map(({ role, conditions }) => ` Role ${role.name} has not started, because it waits until ${describeConditions(conditions)}.`)
    .join('');
}
