import type { ContainerEnd } from '../hadoop/container-exit.ts';
import { jobOf, LIMITS, type Task } from './job-state.ts';
import { leaseMs } from './pace.ts';
import type { Turn } from './turn.ts';

/**
 * Takes a task's container away from it. From here on the container has no say in the job, and is told to end until the cluster
 * says that it has.
 * `leave`: its program is over, its executor goes by itself. `stop`: the cluster ends it, whatever it does. `drain`: the job is over.
 * `release`: it never ran. `ended`: the cluster has said so already. `unreachable`: the cluster has given up its node, where all may
 * still run.
 */
export type Detachment = 'leave' | 'stop' | 'drain' | 'release' | 'ended' | 'unreachable';

export function detach(turn: Turn, slot: number, how: Detachment, reason: string, refundable = false): void {
  const { container, executor, reattachBy, role, index } = turn.task(slot);
  if (container === null) return;
  const attached = executor?.attached === true;
  // Nobody knows what one does that a second attempt has not heard of.
  const mayRun = executor?.mayRun ?? reattachBy !== null;
  turn.unassign(container.id);
  turn.update(slot, { container: null, executor: null, reattachBy: null, leaveAfter: null, pendingExit: null, usage: null });
  turn.dirty = true;
  if (how === 'ended' || (how === 'unreachable' && !mayRun)) return;
  if (how === 'release') turn.act({ type: 'release', containerId: container.id });
  else if (how !== 'unreachable') {
    // The executor ends its program's whole process group; the cluster alone may not reach that.
    if (attached) turn.act({ type: 'stop-program', containerId: container.id, reason });
    if (!attached || how === 'stop') turn.act({ type: 'stop-container', containerId: container.id });
  }
  const heardAt = Math.max(executor?.lastHeard ?? turn.now, turn.state.heardFloor);
  turn.setEnding({
    containerId: container.id,
    role: role.name,
    index,
    since: turn.now,
    until: mayRun ? heardAt + leaseMs(jobOf(turn.state)) : 0,
    stopAt: turn.now + (attached && how !== 'stop' ? LIMITS.leaveMs : LIMITS.stopAgainMs),
    drains: how === 'drain' && mayRun,
    refundable,
  });
}

/** The cluster says that a container which was told to end has ended. What it only says of a lost node is its belief. */
export function forget(turn: Turn, containerId: string, end: ContainerEnd): void {
  const ending = turn.state.ending.get(containerId);
  if (ending === undefined) return;
  if (end === 'node-lost' && ending.until > turn.now) turn.setEnding({ ...ending, stopAt: ending.until, drains: false, refundable: false });
  else turn.deleteEnding(containerId);
}

/** A container of no task: of an earlier attempt, or already told to end. */
export function stopStranger(turn: Turn, containerId: string, role: string): void {
  turn.act({ type: 'stop-container', containerId });
  if (turn.state.ending.has(containerId)) return;
  turn.setEnding({
    containerId,
    role,
    index: -1,
    since: turn.now,
    until: turn.now + leaseMs(jobOf(turn.state)),
    stopAt: turn.now + LIMITS.stopAgainMs,
    drains: false,
    refundable: false,
  });
}

/** An older container of this task may still run its program: a second one must wait. */
export function hasPredecessor(turn: Turn, task: Task): boolean {
  for (const ending of turn.state.ending.values()) {
    if (ending.role === task.role.name && (ending.index === task.index || ending.index === -1) && ending.until > turn.now) return true;
  }
  return false;
}

/** Ends of the cluster's making: the job is not to pay for them. */
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

/** Repeats orders that had no effect. */
export function chaseEnding(turn: Turn): void {
  for (const ending of turn.state.ending.values()) {
    if (turn.now < ending.stopAt) continue;
    if (turn.now > Math.max(ending.since, ending.until) + LIMITS.forgetMs) turn.deleteEnding(ending.containerId);
    else {
      turn.act({ type: 'stop-container', containerId: ending.containerId });
      turn.setEnding({ ...ending, stopAt: turn.now + LIMITS.stopAgainMs });
    }
  }
}
