import { counted } from '../../conf/values/quantities.ts';
import type { ContainerEnd } from '../../hadoop/yarn/container-exit.ts';
import type { Event } from './state/events.ts';
import { type Ending, LIMITS, type MachineState, type Task } from './state/job-state.ts';
import { outlivesMs } from './state/timeouts.ts';
import type { Transition } from './state/transition.ts';

/**
 * The reason why a container is detached from its task:
 * - `leave`: only the executor is ordered to stop. If its program is still running, the program gets SIGTERM and a grace period, and the
 *   job waits briefly for it before the job ends.
 * - `stop`: the task failed or must give up its container. The cluster stops the container, even if the executor is connected.
 * - `release`: the container was never launched.
 * - `ended`: the cluster has reported that the container has exited.
 * - `unreachable`: the cluster has declared the node lost. The container's processes may still be running.
 * - `preempted`: the NodeManager is about to kill the container.
 */
export type Detachment = 'leave' | 'stop' | 'release' | 'ended' | 'unreachable' | 'preempted';

/** Detaches a container from its task. The container then receives stop orders until it has ended. */
export function detach(transition: Transition, slot: number, how: Detachment, reason: string, refundable = false): void {
  const { container, executor, role, index } = transition.task(slot);
  if (container === null) {
    return;
  }
  const attached = executor?.attached === true;
  // If the executor has not reattached to this attempt, its program may be running.
  const mayRun = executor?.mayRun ?? container.reattachBy !== null;
  transition.unassign(container.id);
  transition.update(slot, { container: null, executor: null });
  transition.dirty = true;
  const presumed = how === 'unreachable' || how === 'preempted';
  if (how === 'ended' || (presumed && !attached && !mayRun)) {
    return;
  }
  if (how === 'release') {
    transition.act({ type: 'release', containerId: container.id });
  } else {
    // Only the executor reliably ends the program's whole process group. If the container is lost or will be preempted, skip the program's
    // grace period, because the replacement cannot start until the program has exited.
    if (attached) {
      transition.act({ type: 'stop-program', containerId: container.id, reason, atOnce: presumed });
    }
    if (!presumed && (!attached || how === 'stop')) {
      transition.act({ type: 'stop-container', containerId: container.id });
    }
  }
  const heardAt = Math.max(executor?.lastHeard ?? transition.now, transition.state.heardFloor);
  transition.setEnding({
    containerId: container.id,
    role: role.name,
    index,
    node: container.node,
    since: transition.now,
    until: !mayRun
      ? 0
      : how === 'preempted'
        ? transition.now + LIMITS.preemptedMs
        : heardAt + outlivesMs(transition.state.frozen, role.name),
    attached,
    reported: how === 'unreachable' ? 'presumed' : how === 'preempted' ? 'preempted' : 'nothing',
    stopAt: transition.now + (attached && how !== 'stop' ? role.gracePeriodMs + LIMITS.leaveMs : LIMITS.stopAgainMs),
    drains: how === 'leave' && mayRun,
    refundable,
  });
}

/** Returns the task's container to the cluster. A running program may save its state first, unless its task is spare. */
export function giveBack(transition: Transition, task: Task, reason: string): void {
  if (task.container !== null) {
    detach(transition, task.slot, task.executor?.mayRun === true && !task.role.spare ? 'leave' : 'stop', reason);
  }
  transition.update(task.slot, { state: 'requested', wait: { since: transition.now } });
}

/** After this state has been saved, orders the executors of all succeeded and stopped tasks to exit. */
export function letLeave(transition: Transition): void {
  for (const { slot, container, state } of transition.state.tasks) {
    const leaveRevision = container?.leaveRevision ?? null;
    if (leaveRevision !== null && leaveRevision <= transition.state.revisions.durable) {
      detach(transition, slot, 'leave', state === 'stopped' ? 'the roles in its endAfter have ended' : 'its program has succeeded');
    }
  }
}

/**
 * Handles a report from the ResourceManager that a stopped container has ended. The container may in fact still be running if its node is
 * lost, or if the ResourceManager released the container because the NodeManager did not respond.
 */
export function forget(transition: Transition, containerId: string, end: ContainerEnd): void {
  const ending = transition.state.ending.get(containerId);
  if (ending === undefined) {
    return;
  }
  const kept = { ...ending, drains: false, refundable: false };
  if (ending.until <= transition.now) {
    transition.deleteEnding(containerId);
  } else if (end === 'node-lost' || end === 'released') {
    transition.setEnding({ ...kept, reported: 'presumed' });
  } else if (end === 'preempted') {
    transition.setEnding({ ...kept, reported: 'preempted', until: Math.min(ending.until, transition.now + LIMITS.preemptedMs) });
  } else {
    transition.deleteEnding(containerId);
  }
}

/** Records that a node has been lost. Records each loss only once, even though the ResourceManager reports every container on the node. */
export function noteLostNode(transition: Transition, containerId: string): void {
  const { byContainer, ending, cluster, tasks } = transition.state;
  const node = tasks[byContainer.get(containerId) ?? -1]?.container?.node ?? ending.get(containerId)?.node ?? '';
  if (node === '' || cluster.lostNodes.has(node)) {
    return;
  }
  transition.patch({ cluster: { ...cluster, lostNodes: new Set(cluster.lostNodes).add(node) } });
  const count = tasks.filter(({ container }) => container?.node === node).length;
  transition.record('node-lost', {
    node,
    message: count === 0 ? 'it ran only containers that were ordered to stop' : `it ran ${counted(count, 'task')} of the job`,
  });
}

/**
 * Stops a container that has no task, for example one that an earlier attempt launched. `index` is the former task's index, or -1 if
 * unknown.
 */
export function stopUnassigned(
  transition: Transition,
  container: { containerId: string; role: string; index: number; node: string },
): void {
  const { containerId } = container;
  transition.act({ type: 'stop-container', containerId });
  if (transition.state.ending.has(containerId)) {
    return;
  }
  transition.setEnding({
    ...container,
    since: transition.now,
    until: transition.now + outlivesMs(transition.state.frozen, container.role),
    attached: false,
    reported: 'nothing',
    stopAt: transition.now + LIMITS.stopAgainMs,
    drains: false,
    refundable: false,
  });
}

export function greetUnassigned(
  transition: Transition,
  { containerId, role, index, host, phase }: Extract<Event, { type: 'hello' }>,
): void {
  stopAtOnce(transition, containerId);
  if (!transition.state.ending.has(containerId)) {
    stopUnassigned(transition, { containerId, role, index, node: host });
  }
  const ending = transition.state.ending.get(containerId);
  const until = phase === 'idle' ? 0 : transition.now + outlivesMs(transition.state.frozen, role);
  if (ending !== undefined) {
    transition.setEnding({ ...ending, attached: true, until });
  }
}

/**
 * Handles a message from a container that has no task. Orders an unknown container to stop. If a container that has been ordered to stop
 * sends a message, it counts as connected again, because its program may still be running.
 */
export function recordUnassigned(transition: Transition, containerId: string): void {
  const ending = transition.state.ending.get(containerId);
  if (ending === undefined) {
    stopAtOnce(transition, containerId);
  } else if (ending.until > 0 && ending.reported !== 'preempted') {
    transition.setEnding({
      ...ending,
      attached: true,
      until: Math.max(ending.until, transition.now + outlivesMs(transition.state.frozen, ending.role)),
    });
  }
}

function stopAtOnce(transition: Transition, containerId: string): void {
  transition.act({ type: 'stop-program', containerId, reason: 'this container is no longer part of the job', atOnce: true });
}

/** Handles an executor's report that all of its program's processes have exited. The task's next program can now start. */
export function noteLeft(transition: Transition, containerId: string): void {
  const ending = transition.state.ending.get(containerId);
  if (ending === undefined) {
    return;
  }
  transition.dirty = true;
  if (ending.reported === 'nothing') {
    transition.setEnding({ ...ending, until: 0 });
  } else {
    transition.deleteEnding(containerId);
  }
}

/**
 * Called when the stream from a container that has no task has ended. The executor may keep running until its lease expires. A preempted
 * container counts as ended, because its NodeManager kills the executor and the program together.
 */
export function noteStreamLost(transition: Transition, containerId: string): void {
  const ending = transition.state.ending.get(containerId);
  if (ending === undefined) {
    return;
  }
  if (ending.reported === 'preempted') {
    transition.deleteEnding(containerId);
  } else {
    transition.setEnding({ ...ending, attached: false });
  }
}

/**
 * Returns the containers whose programs must exit before the task's next program can start. Each of these containers was assigned to this
 * task, or to an unknown task in the role.
 */
export function predecessorsOf(state: MachineState, task: Task): Ending[] {
  return [...state.ending.values()].filter(
    ({ role, index, until }) => role === task.role.name && (index === task.index || index === -1) && until > state.now,
  );
}

/**
 * Returns true if the cluster or the ApplicationMaster ended the container. If so, the failure does not count against the task's restarts.
 */
export function isFree(end: ContainerEnd): boolean {
  switch (end) {
    case 'exited':
    case 'memory-exceeded':
      return false;
    case 'stopped-by-master':
    case 'released':
    case 'expired':
    case 'preempted':
    case 'node-lost':
    case 'disks-failed':
    case 'launch-failed':
      return true;
  }
}

/** Repeats stop orders that have had no effect. Forgets containers if the cluster will never report that they have ended. */
export function chaseEnding(transition: Transition): void {
  for (const ending of transition.state.ending.values()) {
    const { containerId, reported, since, until, attached, stopAt } = ending;
    // The cluster has already reported that this container has ended, and will not report this again.
    if (reported !== 'nothing' && until <= transition.now && !attached) {
      transition.deleteEnding(containerId);
    } else if (transition.now > Math.max(since, until) + LIMITS.forgetMs) {
      transition.deleteEnding(containerId);
    } else if (transition.now >= stopAt) {
      if (attached) {
        stopAtOnce(transition, containerId);
      }
      if (reported === 'nothing') {
        transition.act({ type: 'stop-container', containerId });
      }
      transition.setEnding({ ...ending, stopAt: transition.now + LIMITS.stopAgainMs });
    }
  }
}
