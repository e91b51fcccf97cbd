import { stopStranger } from './ending.ts';
import type { Event, Snapshot, SnapshotTask } from './events.ts';
import { membersOf, newGeneration, startMember } from './gang.ts';
import { type JobState, jobOf, LIMITS, type Task } from './job-state.ts';
import { inGang, isLoose, isMember, memberTasks } from './membership.ts';
import { reattachMs } from './pace.ts';
import type { Turn } from './turn.ts';

// A second attempt goes on where the first was. What runs is not touched: the executors' own words say what does. The snapshot says
// which containers belong to the job and which generation may have been started; that number is never given to a gang of other members.

/** Puts what the snapshot knows into the fresh state of a new attempt. */
export function withSnapshot(fresh: JobState, snapshot: Snapshot): JobState {
  const saved = new Map(snapshot.tasks.map((task) => [`${task.role}:${task.index}`, task]));
  const tasks = fresh.tasks.map((task) => withSaved(task, saved.get(`${task.role.name}:${task.index}`), snapshot));
  const { job } = fresh.frozen;
  // Only a claimed or started generation gives ranks.
  const whole =
    snapshot.generation > 0 &&
    tasks.some(({ rank }) => rank !== null) &&
    tasks.filter(isMember).every((task) => task.container !== null || task.state === 'succeeded' || isLoose(job, task.role));
  return {
    ...fresh,
    restored: true,
    // Its user may have written it: a start that is to come would void every limit of time.
    startedAt: Math.min(snapshot.startedAt, fresh.now),
    generation: snapshot.generation,
    tasks,
    byContainer: new Map(tasks.flatMap((task) => (task.container === null ? [] : [[task.container.id, task.slot] as const]))),
    ending: new Map(snapshot.ending.map((each) => [each.containerId, { ...each, since: fresh.now, stopAt: fresh.now, drains: false }])),
    gang:
      fresh.gang === null
        ? null
        : { ...fresh.gang, fruitless: snapshot.fruitless, phase: whole && snapshot.result === null ? 'reattaching' : 'forming' },
    firstFailure: snapshot.firstFailure === null ? null : { text: snapshot.firstFailure, containerId: null },
    metrics: snapshot.metrics,
    earlyEnd: snapshot.earlyEnd,
    result: snapshot.result,
    revision: snapshot.revision,
    durable: snapshot.revision,
  };
}

function withSaved(task: Task, saved: SnapshotTask | undefined, snapshot: Snapshot): Task {
  if (saved === undefined) return task;
  const known = {
    rank: saved.rank,
    attempts: saved.attempts,
    failures: saved.failures,
    failedNodes: saved.failedNodes,
    generation: saved.generation,
  };
  const over = saved.state === 'succeeded' || saved.state === 'failed' || saved.state === 'lost' || saved.state === 'stopped';
  // One that ran in a generation that is over runs again, unless it has been given up.
  if (over && (!inGang(task) || saved.generation === snapshot.generation || saved.state === 'failed' || saved.state === 'lost'))
    return { ...task, ...known, state: saved.state, exitCode: saved.exitCode };
  if (saved.containerId === null) return { ...task, ...known };
  return {
    ...task,
    ...known,
    state: 'launching',
    container: { id: saved.containerId, role: saved.role, node: saved.node ?? '', nodeHttp: '', memoryMb: task.role.resources.memoryMb },
    // Counts from the registration on: before it, nobody can have found this attempt.
    reattachBy: Number.MAX_SAFE_INTEGER,
  };
}

/** The cluster's list of what the first attempt left alive. */
export function matchSurvivors(turn: Turn, event: Extract<Event, { type: 'registered' }>): void {
  const alive = new Map(event.survivors.map((container) => [container.id, container]));
  for (const task of turn.state.tasks) {
    const { container } = task;
    if (container === null || task.reattachBy === null) continue;
    const survivor = alive.get(container.id);
    // One that is not listed has ended, and the cluster is about to say how; or it is listed late.
    const patience = survivor === undefined ? LIMITS.unlistedMs : reattachMs(jobOf(turn.state));
    turn.update(task.slot, { container: survivor ?? container, reattachBy: turn.now + patience });
  }
  for (const container of event.survivors) {
    if (!turn.state.byContainer.has(container.id)) stopStranger(turn, container.id, container.role);
  }
}

/** Once everybody is back: the generation goes on where it runs, and is formed anew where it does not. */
export function settle(turn: Turn): void {
  const { gang, generation, registration } = turn.state;
  if (gang === null || gang.phase !== 'reattaching' || registration === null) return;
  const tasks = memberTasks(turn.state);
  const loose = (task: Task) => isLoose(jobOf(turn.state), task.role);
  if (tasks.some((task) => task.container !== null && task.executor === null)) return;
  const active = tasks.filter((task) => task.state !== 'succeeded');
  const inGeneration = active.filter((task) => task.executor?.program?.generation === generation);
  const rest = active.filter((task) => !inGeneration.includes(task));
  // Workers of parameter servers come and go.
  const bound = rest.filter((task) => !loose(task) || task.executor !== null);
  const startable = bound.every(
    ({ executor }) => executor?.program === null && executor.port > 0 && (executor.portFor === 0 || executor.portFor === generation),
  );
  // The first attempt died between two orders to start. The members can only be named again when all of them are here.
  const nameable = tasks.every((task) => task.state !== 'succeeded' || loose(task));
  const completable = bound.length === 0 || (startable && inGeneration.length > 0 && nameable);
  if (!completable) {
    newGeneration(turn, { incidentUntil: null, why: 'the ApplicationMaster was started again before all of them were' });
    return;
  }
  turn.patchGang({ phase: 'started', since: turn.now, members: membersOf(turn.state) });
  turn.record('generation-resumed', { generation, detail: `${inGeneration.length} of ${tasks.length} tasks were running` });
  for (const task of bound) if (!loose(task)) startMember(turn, task.slot);
}
