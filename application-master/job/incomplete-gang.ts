import { createHash } from 'node:crypto';
import { inGang } from '../../conf/role-conditions.ts';
import { formatDuration } from '../../conf/values/units.ts';
import { backoffMs } from '../../platform/async/backoff.ts';
import { giveBack } from './ending.ts';
import { decide } from './finish.ts';
import { unclaim } from './gang.ts';
import { describeMissing, gangShortage } from './pending-reasons.ts';
import { next } from './state/counters.ts';
import { type Gang, isOver, jobOf, LIMITS, type MachineState, type Task } from './state/job-state.ts';
import { awaitedTasks, gangTasks, isInGracePeriod, missingTasks } from './state/membership.ts';
import type { Transition } from './state/transition.ts';

// YARN allocates containers one by one, so a gang must hold containers for a short time until it is complete. A gang that holds its
// containers while the cluster has no room for the rest would only keep them from other jobs, and two such gangs would block each other
// forever. An incomplete gang therefore returns its containers soon after YARN has stopped allocating more, and requests all of them again
// after a pause. The pauses grow, so that other jobs can run. Once the cluster reports enough room, the gang ends the second half of its
// pause.

/** On every tick: returns the containers of a gang that remains incomplete, and fails the job after `LIMITS.rounds` timeouts. */
export function watchIncompleteGang(transition: Transition): void {
  const { gang, cluster, decision, generation } = transition.state;
  const { timeoutMs } = jobOf(transition.state).gang;
  const tasks = gangTasks(transition.state);
  if (gang?.phase !== 'forming' || cluster.registration === null || decision !== null || tasks.some(({ wait }) => wait.held)) {
    return;
  }
  const missing = missingTasks(transition.state);
  // The gang is complete and is waiting only for storage, so the timeout does not apply.
  if (missing.length === 0) {
    transition.patchGang({ since: transition.now, rounds: 0 });
    return;
  }
  // The timeout applies to missing containers, and begins after the grace periods of the earlier programs.
  if (missing.some((task) => isInGracePeriod(transition.state, task))) {
    transition.patchGang({ since: transition.now });
    return;
  }
  if (transition.now - gang.since >= timeoutMs * (gang.rounds + 1)) {
    endRound(transition, gang, missing);
  } else if (gang.notBefore > transition.now) {
    resumeEarly(transition, gang);
  } else if (heldInVainSince(transition.state, gang) + holdMs(gang, generation) <= transition.now) {
    if (tasks.some(({ container }) => container !== null)) {
      transition.record('gang-returned', { generation: next(generation), message: describeMissing(transition.state, missing) });
    }
    returnContainers(transition, gang, 'the cluster has no room for the whole gang');
  }
}

/** Ends the job if the gang has timed out for the last time. Otherwise, the gang returns its containers and starts again. */
function endRound(transition: Transition, gang: Gang, missing: readonly Task[]): void {
  const rounds = gang.rounds + 1;
  const sentence = describeMissing(transition.state, missing);
  transition.record('gang-timeout', { generation: next(transition.state.generation), message: sentence });
  if (rounds >= LIMITS.rounds) {
    const limit = formatDuration(jobOf(transition.state).gang.timeoutMs);
    const diagnostics = `The gang was not complete within ${limit}, ${rounds} times in a row. ${sentence}`;
    decide(transition, { state: 'failed', message: diagnostics });
    return;
  }
  for (const task of gangTasks(transition.state)) {
    if (!isOver(task) && task.container !== null && task.executor === null) {
      const nodes = [...task.failures.nodes, task.container.node].slice(-LIMITS.notices);
      transition.update(task.slot, { failures: { nodes } });
    }
  }
  transition.patchGang({ rounds });
  // The gang may have returned its containers already.
  if (gang.notBefore <= transition.now) {
    returnContainers(transition, gang, 'the gang was not complete in time');
  }
}

function returnContainers(transition: Transition, { returns }: Gang, reason: string): void {
  for (const task of gangTasks(transition.state)) {
    if (!isOver(task)) {
      giveBack(transition, task, reason);
    }
  }
  transition.patchGang({ returns: returns + 1, notBefore: transition.now + pauseMs(transition.state, returns + 1) });
  unclaim(transition);
}

/** Ends the second half of a pause if the queue reports enough room for the gang. */
function resumeEarly(transition: Transition, { returns, notBefore }: Gang): void {
  const { state } = transition;
  if (notBefore - transition.now <= pauseMs(state, returns) / 2 && hasRoomForGang(state)) {
    transition.patchGang({ notBefore: transition.now });
  }
}

/**
 * Returns true if the headroom that the ResourceManager reports covers all requests of the gang. The headroom does not include nodes with
 * other labels than the queue's default, so a gang that requests a label waits until its pause ends.
 */
function hasRoomForGang(state: MachineState): boolean {
  const tasks = awaitedTasks(state).filter((task) => inGang(task.role) && task.container === null);
  return tasks.every(({ role }) => role.nodeLabel === null) && gangShortage(state).length === 0;
}

/**
 * Returns the time since which the gang has waited for containers without getting one. Infinite if it does not wait for the cluster,
 * because all its containers are starting, or because it still avoids nodes (see `forgiveNodes`). A gang of one task never holds anything
 * in vain.
 */
function heldInVainSince(state: MachineState, gang: Gang): number {
  const awaited = awaitedTasks(state).filter((task) => inGang(task.role) && !isOver(task));
  const waiting = awaited.filter((task) => task.state === 'requested' && task.wait.notBefore <= state.now);
  const avoids = waiting.some(({ role }) => (state.requests.asks.get(role.name)?.excludedNodes.length ?? 0) > 0);
  if (waiting.length === 0 || awaited.length === 1 || avoids) {
    return Number.POSITIVE_INFINITY;
  }
  const roles = new Set(gangTasks(state).map(({ role }) => role.name));
  const changes = [...roles].map((name) => state.requests.asks.get(name)?.since ?? 0);
  return Math.max(gang.since, gang.notBefore, ...waiting.map(({ wait }) => wait.notBefore), ...changes);
}

function holdMs({ returns }: Gang, generation: number): number {
  const { holdMs: firstMs, longestHoldMs: mostMs, rejoinHoldMs } = LIMITS;
  return generation > 0 && returns === 0 ? rejoinHoldMs : backoffMs(returns + 1, { firstMs, mostMs });
}

/**
 * Returns the pause in ms after the gang has returned its containers for the `returns`th time in a row. The pause includes jitter that is
 * derived from the application ID, so that jobs do not retry at the same time.
 */
export function pauseMs(state: MachineState, returns: number): number {
  const dice = createHash('sha256').update(`${state.frozen.jobId} ${returns}`).digest().readUInt16BE() / 0xffff;
  return Math.ceil(backoffMs(returns, { firstMs: LIMITS.returnedMs, mostMs: LIMITS.longestReturnedMs }) * (0.5 + dice));
}
