import type { ContainerEnd } from './events.ts';
import { jobOf, LIMITS, type Task } from './job-state.ts';
import { leaseMs } from './pace.ts';
import type { Turn } from './turn.ts';

/**
 * Takes a task's container away from it. From here on the container has no say in the job, and is told to end until the cluster
 * says that it has.
 * `leave`: its program is over, its executor goes by itself. `stop`: the cluster ends it, whatever it does. `drain`: the job is over.
 * `ended`: the cluster has said so already. `release`: it never ran.
 */
export function detach(
  turn: Turn,
  slot: number,
  how: 'leave' | 'stop' | 'drain' | 'ended' | 'release',
  reason: string,
  refundable = false,
): void {
  const { container, executor, role, index } = turn.task(slot);
  if (container === null) return;
  const attached = executor?.attached === true;
  turn.unassign(container.id);
  turn.update(slot, { container: null, executor: null, reattachBy: null, pendingExit: null, usage: null });
  turn.dirty = true;
  if (how === 'ended') return;
  if (how === 'release') turn.act({ type: 'release', containerId: container.id });
  else {
    // The executor ends its program's whole process group; the cluster alone may not reach that.
    if (attached) turn.act({ type: 'stop-program', containerId: container.id, reason });
    if (!attached || how === 'stop') turn.act({ type: 'stop-container', containerId: container.id });
  }
  const mayRun = executor?.mayRun === true;
  turn.setEnding({
    containerId: container.id,
    role: role.name,
    index,
    since: turn.now,
    until: mayRun ? Math.max(executor.lastHeard, turn.state.heardFloor) + leaseMs(jobOf(turn.state)) : 0,
    stopAt: turn.now + (attached && how !== 'stop' ? LIMITS.leaveMs : LIMITS.stopAgainMs),
    drains: how === 'drain' && mayRun,
    refundable,
  });
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
