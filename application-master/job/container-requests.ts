import type { Role } from '../../conf/job.ts';
import { inGang } from '../../conf/role-conditions.ts';
import type { Container } from './state/events.ts';
import { jobOf, LIMITS, type MachineState, type Task } from './state/job-state.ts';
import { isElastic, isIndependentlyReplaceable, isMember, lackingTasks, mayGrowSoon, restartsAlone } from './state/membership.ts';
import { othersRun } from './state/spare-task.ts';
import type { Transition } from './state/transition.ts';

export function wantedTasks(state: MachineState, role: Role): Task[] {
  const { gang, now, cluster, decision, admission } = state;
  const job = jobOf(state);
  if (cluster.registration === null || decision !== null || admission.held !== null) {
    return [];
  }
  const waits = (task: Task) => task.role === role && task.state === 'requested' && !task.wait.held && task.wait.notBefore <= now;
  const waiting = state.tasks.filter(waits);
  if (waiting.length === 0) {
    return [];
  }
  if (role.spare) {
    return othersRun(state) ? waiting : [];
  }
  if (gang === null || !inGang(role)) {
    return waiting;
  }
  switch (gang.phase) {
    case 'forming':
      if (gang.notBefore > now) {
        return [];
      }
      return isElastic(role) && !othersHaveContainers(state) ? lackingTasks(state, waits) : waiting;
    case 'started':
      return waiting.filter((task) =>
        isMember(task) ? isIndependentlyReplaceable(job, role) : mayGrowSoon(state) && othersHaveContainers(state),
      );
    case 'reattaching':
      return [];
  }
}

/** Returns true if all required tasks have containers. Only then may the job request extra tasks for an elastic role. */
function othersHaveContainers(state: MachineState): boolean {
  return (
    state.tasks.every(
      (task) => task.state !== 'requested' || task.wait.held || (isElastic(task.role) && !isMember(task)) || task.role.spare,
    ) && lackingTasks(state).length === 0
  );
}

/**
 * Assigns each allocated container to the first task in its role that is waiting for one, and releases the rest. Launches containers
 * immediately, because their tokens expire and YARN takes back containers that are not launched in time.
 */
export function assignContainers(transition: Transition, containers: readonly Container[]): void {
  for (const container of containers) {
    if (transition.state.byContainer.has(container.id) || transition.state.ending.has(container.id)) {
      continue;
    }
    transition.askAgain.add(container.role);
    const role = transition.state.frozen.job.roles.find((each) => each.name === container.role);
    const task = role === undefined ? undefined : wantedTasks(transition.state, role)[0];
    // No task needs this container, or its node has been excluded since the container was requested.
    if (task === undefined || excludedNodes(transition.state, task.role).includes(container.node)) {
      transition.act({ type: 'release', containerId: container.id });
      continue;
    }
    transition.update(task.slot, {
      state: 'launching',
      container: { ...container, savedRevision: transition.nextRevision, leaveRevision: null, reattachBy: null },
      newest: { id: container.id, node: container.node, nodeHttp: container.nodeHttp },
      executor: null,
      attempts: task.attempts + 1,
      wait: { since: restartsAlone(transition.state, task) ? transition.now : task.wait.since, asked: false },
      exit: null,
      startedAt: null,
      // A spare task counts as ready once it has metrics, so discard the metrics from its previous container.
      ...(task.role.spare && { progress: { metrics: {} } }),
    });
    transition.assign(container.id, task.slot);
    const { cluster } = transition.state;
    if (cluster.lostNodes.has(container.node)) {
      transition.patch({ cluster: { ...cluster, lostNodes: new Set([...cluster.lostNodes].filter((node) => node !== container.node)) } });
    }
    transition.dirty = true;
    transition.recordTask('container-allocated', transition.task(task.slot));
    transition.act({ type: 'launch', containerId: container.id, role: task.role.name, index: task.index });
  }
}

/** Sends a new request for each role whose container count or excluded nodes have changed. */
export function ask(transition: Transition): void {
  const { state } = transition;
  if (state.cluster.registration === null) {
    return;
  }
  for (const role of state.frozen.job.roles) {
    const wanted = wantedTasks(state, role);
    const count = wanted.length;
    const last = state.requests.asks.get(role.name) ?? { count: 0, excludedNodes: [], since: state.now };
    const excluded = count === 0 ? last.excludedNodes : excludedNodes(state, role);
    const sameNodes = excluded.length === last.excludedNodes.length && excluded.every((node, at) => node === last.excludedNodes[at]);
    if (count === last.count && sameNodes && !(transition.askAgain.has(role.name) && count > 0)) {
      continue;
    }
    transition.act({ type: 'ask', role, count, excludedNodes: excluded });
    for (const task of wanted) {
      if (task.wait.asked) {
        continue;
      }
      transition.update(task.slot, { wait: { asked: true } });
      transition.recordTask('task-requested', task);
    }
    const { requests } = transition.state;
    const since = count === last.count && sameNodes ? last.since : state.now;
    transition.patch({ requests: { ...requests, asks: new Map(requests.asks).set(role.name, { count, excludedNodes: excluded, since }) } });
  }
}

/**
 * Returns the nodes on which the role's tasks failed too often, sorted by number of failures, highest first. Never returns all of the
 * cluster's nodes.
 */
export function excludedNodes(state: MachineState, role: Role): readonly string[] {
  const failures = new Map<string, number>();
  for (const task of state.tasks) {
    if (task.role !== role) {
      continue;
    }
    for (const node of task.failures.nodes) {
      failures.set(node, (failures.get(node) ?? 0) + 1);
    }
  }
  if (failures.size === 0) {
    return [];
  }
  return [...failures]
    .filter(([, count]) => count >= LIMITS.failuresPerNode)
    .sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1))
    .slice(0, Math.max(0, state.cluster.nodes - 1))
    .map(([node]) => node);
}

/** Clears a role's excluded nodes if the role has waited too long for a container: a node with earlier failures is better than none. */
export function forgiveNodes(transition: Transition): void {
  const { requests, frozen } = transition.state;
  for (const role of frozen.job.roles) {
    const ask = requests.asks.get(role.name);
    if (ask === undefined || ask.count === 0 || ask.excludedNodes.length === 0 || transition.now - ask.since < LIMITS.choosyMs) {
      continue;
    }
    for (const task of transition.state.tasks) {
      if (task.role === role) {
        transition.update(task.slot, { failures: { nodes: [] } });
      }
    }
    transition.dirty = true;
  }
}
