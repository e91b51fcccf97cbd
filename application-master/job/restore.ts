import { inGang } from '../../conf/role-conditions.ts';
import { isTaskOver } from '../../conf/status/status.ts';
import { stopUnassigned } from './ending.ts';
import { membersOf, startMember } from './gang.ts';
import { newGeneration } from './recovery.ts';
import { withoutStarted } from './role-order.ts';
import type { Event } from './state/events.ts';
import { hasEnded, jobOf, LIMITS, type MachineState, type Task } from './state/job-state.ts';
import { isIndependentlyReplaceable, isMember, memberTasks } from './state/membership.ts';
import type { Snapshot, SnapshotTask } from './state/snapshot-format.ts';
import { reattachMs } from './state/timeouts.ts';
import type { Transition } from './state/transition.ts';

// A later attempt continues from a snapshot without interrupting running programs. The snapshot lists the job's containers and the highest
// generation that may have started. That generation's number is never given to a different set of members. The executors report which
// programs are running.

export function withSnapshot(fresh: MachineState, snapshot: Snapshot): MachineState {
  const saved = new Map(snapshot.tasks.map((task) => [`${task.role}:${task.index}`, task]));
  const tasks = withoutStarted(fresh.tasks.map((task) => withSaved(task, saved.get(`${task.role.name}:${task.index}`), snapshot)));
  const { job } = fresh.frozen;
  // Tasks have ranks only after a generation's members have been selected.
  const whole =
    snapshot.generation > 0 &&
    tasks.some(({ rank }) => rank !== null) &&
    tasks.filter(isMember).every((task) => task.container !== null || hasEnded(task) || isIndependentlyReplaceable(job, task.role));
  return {
    ...fresh,
    restored: true,
    // Users can edit the snapshot file. A start time in the future would disable every time limit.
    startedAt: Math.min(snapshot.startedAt, fresh.now),
    generation: snapshot.generation,
    tasks,
    byContainer: new Map(tasks.flatMap((task) => (task.container === null ? [] : [[task.container.id, task.slot] as const]))),
    ending: new Map(
      snapshot.ending.map((each) => [each.containerId, { ...each, since: fresh.now, attached: false, stopAt: fresh.now, drains: false }]),
    ),
    roleEnds: new Map(Object.entries(snapshot.roleEnds)),
    gang:
      fresh.gang === null
        ? null
        : { ...fresh.gang, fruitless: snapshot.fruitless, phase: whole && snapshot.result === null ? 'reattaching' : 'forming' },
    firstFailure: snapshot.firstFailure === null ? null : { failure: snapshot.firstFailure, containerId: null },
    training: { ...fresh.training, metrics: snapshot.metrics, earlyEnd: snapshot.earlyEnd, notices: snapshot.notices },
    decision:
      snapshot.result === null
        ? null
        : {
            result: snapshot.result,
            task: snapshot.decisiveTask,
            at: fresh.now,
            revision: snapshot.revision,
            stoppedAt: null,
            finished: false,
          },
    revisions: { newest: snapshot.revision, durable: snapshot.revision },
  };
}

function withSaved(task: Task, saved: SnapshotTask | undefined, snapshot: Snapshot): Task {
  if (saved === undefined) {
    return task;
  }
  const known = {
    rank: saved.rank,
    attempts: saved.attempts,
    programStarts: saved.programStarts ?? saved.attempts,
    failures: { ...task.failures, charged: saved.failures, newest: saved.failure, nodes: saved.failedNodes },
    generation: saved.generation,
    startedAt: saved.startedAt,
    newest: saved.newest,
  };
  // A gang task that succeeded in an earlier generation runs again.
  if (
    isTaskOver(saved.state) &&
    (!inGang(task.role) || saved.generation === snapshot.generation || saved.state === 'failed' || saved.state === 'lost')
  ) {
    return { ...task, ...known, state: saved.state, exit: saved.exit };
  }
  if (saved.containerId === null) {
    return { ...task, ...known };
  }
  return {
    ...task,
    ...known,
    state: 'launching',
    container: {
      id: saved.containerId,
      role: saved.role,
      node: saved.node ?? '',
      nodeHttp: '',
      memoryMb: task.role.resources.memoryMb,
      savedRevision: snapshot.revision,
      leaveRevision: null,
      // `matchSurvivors` sets the real deadline when this attempt registers, because executors cannot find this attempt before then.
      reattachBy: Number.MAX_SAFE_INTEGER,
    },
  };
}

/** Compares the restored tasks with the cluster's list of running containers. */
export function matchSurvivors(transition: Transition, event: Extract<Event, { type: 'registered' }>): void {
  const alive = new Map(event.survivors.map((container) => [container.id, container]));
  for (const task of transition.state.tasks) {
    const { container } = task;
    if (container === null || container.reattachBy === null) {
      continue;
    }
    const survivor = alive.get(container.id);
    // The cluster will either report that a missing container has ended, or list the container later.
    const waitMs = survivor === undefined ? LIMITS.unlistedMs : reattachMs(jobOf(transition.state));
    transition.update(task.slot, { container: { ...container, ...survivor, reattachBy: transition.now + waitMs } });
  }
  for (const container of event.survivors) {
    if (transition.state.byContainer.has(container.id)) {
      continue;
    }
    stopUnassigned(transition, { containerId: container.id, role: container.role, index: -1, node: container.node });
  }
}

/** Resumes the generation after all members have reattached, or forms a new generation if the old one is not running. */
export function settle(transition: Transition): void {
  const { gang, generation, cluster } = transition.state;
  if (gang === null || gang.phase !== 'reattaching' || cluster.registration === null) {
    return;
  }
  const tasks = memberTasks(transition.state);
  const loose = (task: Task) => isIndependentlyReplaceable(jobOf(transition.state), task.role);
  if (tasks.some((task) => task.container !== null && task.executor === null)) {
    return;
  }
  const active = tasks.filter((task) => !hasEnded(task));
  const inGeneration = active.filter((task) => task.executor?.program?.generation === generation);
  const rest = active.filter((task) => !inGeneration.includes(task));
  // In a job with parameter servers, workers may be missing, because they are replaced individually.
  const bound = rest.filter((task) => !loose(task) || task.executor !== null);
  const startable = bound.every(
    ({ executor }) => executor?.program === null && executor.port > 0 && (executor.portFor === 0 || executor.portFor === generation),
  );
  // The previous attempt may have failed while it was sending start orders. This attempt sends the remaining orders if it can rebuild the
  // complete member list.
  const nameable = tasks.every((task) => !hasEnded(task) || loose(task));
  const completable = bound.length === 0 || (startable && inGeneration.length > 0 && nameable);
  if (!completable) {
    newGeneration(transition, { incidentUntil: null, why: 'the previous ApplicationMaster failed before it had started all tasks' });
    return;
  }
  transition.patchGang({ phase: 'started', since: transition.now, members: membersOf(transition.state) });
  transition.record('generation-resumed', { generation, message: `${inGeneration.length} of ${tasks.length} tasks were running` });
  for (const task of bound) {
    if (!loose(task)) {
      startMember(transition, task.slot);
    }
  }
}
