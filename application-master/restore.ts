import { stopStranger } from './ending.ts';
import type { Event, Snapshot, SnapshotTask } from './events.ts';
import { membersOf, newGeneration, rankedTasks, startRanked } from './gang.ts';
import { type JobState, jobOf, LIMITS, type Task } from './job-state.ts';
import { reattachMs } from './pace.ts';
import type { Turn } from './turn.ts';

// A second attempt goes on where the first was. What runs is not touched: the executors' own words say what does. The snapshot says
// which containers belong to the job and which generation may have been started; that number is never given to a gang of other members.

/** Puts what the snapshot knows into the fresh state of a new attempt. */
export function withSnapshot(fresh: JobState, snapshot: Snapshot): JobState {
  const saved = new Map(snapshot.tasks.map((task) => [`${task.role}:${task.index}`, task]));
  const tasks = fresh.tasks.map((task) => withSaved(task, saved.get(`${task.role.name}:${task.index}`), snapshot));
  const ranked = tasks.filter((task) => task.rank !== null);
  const whole = snapshot.generation > 0 && ranked.every((task) => task.container !== null || task.state === 'succeeded');
  return {
    ...fresh,
    restored: true,
    startedAt: snapshot.startedAt,
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
    result: snapshot.result,
    revision: snapshot.revision,
    durable: snapshot.revision,
  };
}

function withSaved(task: Task, saved: SnapshotTask | undefined, snapshot: Snapshot): Task {
  if (saved === undefined) return task;
  const known = { attempts: saved.attempts, failures: saved.failures, failedNodes: saved.failedNodes, generation: saved.generation };
  const over = saved.state === 'succeeded' || saved.state === 'failed' || saved.state === 'lost' || saved.state === 'stopped';
  if (over && (task.rank === null || saved.generation === snapshot.generation))
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
  const tasks = rankedTasks(turn.state);
  if (tasks.some((task) => task.container !== null && task.executor === null)) return;
  const active = tasks.filter((task) => task.state !== 'succeeded');
  const inGeneration = active.filter((task) => task.executor?.program?.generation === generation);
  const rest = active.filter((task) => !inGeneration.includes(task));
  const startable = rest.every(
    ({ executor }) => executor?.program === null && executor.port > 0 && (executor.portFor === 0 || executor.portFor === generation),
  );
  // The first attempt died between two orders to start. The members can only be named again when all of them are here.
  const completable = rest.length === 0 || (startable && inGeneration.length > 0 && active.length === tasks.length);
  if (!completable) {
    newGeneration(turn, { incidentUntil: null });
    return;
  }
  turn.patchGang({ phase: 'started', since: turn.now, members: membersOf(turn.state) });
  turn.record('generation-resumed', { generation, detail: `${inGeneration.length} of ${tasks.length} ranked tasks were running` });
  for (const task of rest) startRanked(turn, task.slot);
}
