import type { Role } from '../conf/job.ts';
import { isCompanion, othersRun } from './companion.ts';
import { detach } from './ending.ts';
import type { Container } from './events.ts';
import { mayGrowSoon } from './growth.ts';
import { type JobState, jobOf, LIMITS, type Task } from './job-state.ts';
import { inGang, isElastic, isLoose, isMember, lackingTasks, restartsAlone } from './membership.ts';
import type { Turn } from './turn.ts';

/** The role's tasks that wait for a container, and may be given one now. */
export function wantedTasks(state: JobState, role: Role): Task[] {
  const { gang, now, registration, result, held } = state;
  const job = jobOf(state);
  if (registration === null || result !== null || held !== null) return [];
  const waits = (task: Task) => task.role === role && task.state === 'requested' && task.notBefore <= now;
  const waiting = state.tasks.filter(waits);
  if (waiting.length === 0) return [];
  if (isCompanion(job, role)) return othersRun(state) ? waiting : [];
  if (gang === null || !inGang({ role })) return waiting;
  switch (gang.phase) {
    case 'forming':
      if (gang.notBefore > now) return [];
      return isElastic(role) && !othersHaveContainers(state) ? lackingTasks(state, waits) : waiting;
    case 'started':
      return waiting.filter((task) => (isMember(task) ? isLoose(job, role) : mayGrowSoon(state) && othersHaveContainers(state)));
    case 'reattaching':
      return [];
  }
}

/** More than the least number of an elastic role is asked for last: it must not take the room of those that are needed. */
function othersHaveContainers(state: JobState): boolean {
  return (
    state.tasks.every(
      (task) => task.state !== 'requested' || (isElastic(task.role) && !isMember(task)) || isCompanion(jobOf(state), task.role),
    ) && lackingTasks(state).length === 0
  );
}

/** Containers as they come: each to the lowest task that waits, the rest back. Launched at once: tokens and patience of the cluster run out. */
export function take(turn: Turn, containers: readonly Container[]): void {
  for (const container of containers) {
    // Said twice.
    if (turn.state.byContainer.has(container.id) || turn.state.ending.has(container.id)) continue;
    turn.askAgain.add(container.role);
    const role = turn.state.frozen.job.roles.find((each) => each.name === container.role);
    const task = role === undefined ? undefined : wantedTasks(turn.state, role)[0];
    // It may have been under way when its node was excluded.
    if (task === undefined || excludedNodes(turn.state, task.role).includes(container.node)) {
      turn.act({ type: 'release', containerId: container.id });
      continue;
    }
    turn.update(task.slot, {
      state: 'launching',
      container,
      asked: false,
      executor: null,
      reattachBy: null,
      attempts: task.attempts + 1,
      savedIn: turn.state.revision + 1,
      waitingSince: restartsAlone(turn.state, task) ? turn.now : task.waitingSince,
      exitCode: null,
      // Whether it answers is its program's to say anew.
      ...(isCompanion(turn.state.frozen.job, task.role) && { metrics: {} }),
    });
    turn.assign(container.id, task.slot);
    turn.dirty = true;
    turn.recordTask('container-allocated', turn.task(task.slot));
    turn.act({ type: 'launch', containerId: container.id, role: task.role.name, index: task.index });
  }
}

/** Says what is wanted wherever that differs from what was said last. */
export function ask(turn: Turn): void {
  const { state } = turn;
  if (state.registration === null) return;
  for (const role of state.frozen.job.roles) {
    const wanted = wantedTasks(state, role);
    const count = wanted.length;
    const last = state.asks.get(role.name) ?? { count: 0, excludedNodes: [], since: state.now };
    const excluded = count === 0 ? last.excludedNodes : excludedNodes(state, role);
    const sameNodes = excluded.length === last.excludedNodes.length && excluded.every((node, at) => node === last.excludedNodes[at]);
    if (count === last.count && sameNodes && !(turn.askAgain.has(role.name) && count > 0)) continue;
    turn.act({ type: 'ask', role, count, excludedNodes: excluded });
    for (const task of wanted) {
      if (task.asked) continue;
      turn.update(task.slot, { asked: true });
      turn.recordTask('task-requested', task);
    }
    turn.patch({
      asks: new Map(turn.state.asks).set(role.name, {
        count,
        excludedNodes: excluded,
        since: count === last.count && sameNodes ? last.since : state.now,
      }),
    });
  }
}

/** Nodes where the role's tasks failed too often, the worst first; one node of the cluster is always left. */
export function excludedNodes(state: JobState, role: Role): readonly string[] {
  const failures = new Map<string, number>();
  for (const task of state.tasks) {
    if (task.role !== role) continue;
    for (const node of task.failedNodes) failures.set(node, (failures.get(node) ?? 0) + 1);
  }
  if (failures.size === 0) return [];
  return [...failures]
    .filter(([, count]) => count >= LIMITS.failuresPerNode)
    .sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1))
    .slice(0, Math.max(0, (state.cluster?.nodes ?? 1) - 1))
    .map(([node]) => node);
}

/** A role that waits in vain is better served on a node that failed it than nowhere. */
export function forgiveNodes(turn: Turn): void {
  const { asks, frozen } = turn.state;
  for (const role of frozen.job.roles) {
    const ask = asks.get(role.name);
    if (ask === undefined || ask.count === 0 || ask.excludedNodes.length === 0 || turn.now - ask.since < LIMITS.choosyMs) continue;
    for (const task of turn.state.tasks) if (task.role === role) turn.update(task.slot, { failedNodes: [] });
    turn.dirty = true;
  }
}

/** What was held in vain goes back. */
export function giveBack(turn: Turn, task: Task, reason: string): void {
  if (task.container !== null) detach(turn, task.slot, 'stop', reason);
  turn.update(task.slot, { state: 'requested', waitingSince: turn.now });
}
