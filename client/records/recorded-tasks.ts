import type { FrozenJob } from '../../conf/job.ts';
import { conditionsOf } from '../../conf/role-conditions.ts';
import { type HistoryEntry, isTaskOver, type TaskStatus } from '../../conf/status/status.ts';

/** Maximum number of tasks to derive. Users can edit the files in a history. */
export const MAXIMUM_TASKS = 100_000;

/**
 * Derives the states of a job's tasks from its events.
 * @param over whether the job has ended; if so, tasks that have not ended count as stopped
 */
export function tasksOf(frozen: FrozenJob | null, entries: readonly HistoryEntry[], over: boolean): TaskStatus[] {
  const tasks = new Map<string, TaskStatus>();
  for (const { name, instances } of frozen?.job.roles ?? []) {
    for (let index = 0; index < instances && tasks.size < MAXIMUM_TASKS; index++) {
      tasks.set(`${name}:${index}`, unknownTask(name, index));
    }
  }
  for (const entry of entries) {
    const { role, index } = entry;
    if (role === undefined || index === undefined) {
      followWait(tasks, frozen, entry);
      continue;
    }
    const key = `${role}:${index}`;
    const before = tasks.get(key) ?? unknownTask(role, index);
    if (tasks.has(key) || tasks.size < MAXIMUM_TASKS) {
      tasks.set(key, after(before, entry));
    }
  }
  return [...tasks.values()].map((one) => (over && !isTaskOver(one.state) ? { ...one, state: 'stopped' } : one));
}

/** Applies an event that concerns all tasks of a role: the tasks start or stop waiting for other roles. */
function followWait(tasks: Map<string, TaskStatus>, frozen: FrozenJob | null, { event, role: name }: HistoryEntry): void {
  const role = frozen?.job.roles.find((each) => each.name === name);
  if (frozen === null || role === undefined || (event !== 'role-waits' && event !== 'role-released')) {
    return;
  }
  for (const [key, { waitsFor: _, ...task }] of tasks) {
    if (task.role === name) {
      tasks.set(key, event === 'role-waits' ? { ...task, waitsFor: conditionsOf(frozen.job, role) } : task);
    }
  }
}

function unknownTask(role: string, index: number): TaskStatus {
  return {
    role,
    index,
    state: 'requested',
    rank: null,
    generation: 0,
    attempts: 0,
    failures: 0,
    containerId: null,
    node: null,
    nodeHttp: null,
    step: 0,
    metrics: {},
    usage: null,
    silentMs: null,
    exit: null,
    failure: null,
  };
}

function after(before: TaskStatus, entry: HistoryEntry): TaskStatus {
  const { event, exit = null, failure = null } = entry;
  const generation = Math.max(before.generation, entry.generation ?? 0);
  const now = { ...before, generation };
  switch (event) {
    case 'container-allocated':
      return {
        ...now,
        state: 'launching',
        attempts: before.attempts + 1,
        containerId: entry.containerId ?? null,
        node: entry.node ?? null,
      };
    case 'task-requested':
      return { ...now, state: 'requested' };
    case 'executor-registered':
    // The gang is restarting, so the executor has stopped its program. The executor itself remains registered.
    case 'program-stopped':
      return { ...now, state: 'registered' };
    case 'program-started':
      return { ...now, state: 'running' };
    case 'task-stopped':
      return { ...now, state: 'stopped' };
    case 'program-ended':
      // If tony-ts stopped a task because other roles had ended, the task remains stopped, regardless of its exit code.
      return before.state === 'stopped' ? now : { ...now, state: exit?.code === 0 ? 'succeeded' : 'failed', exit };
    case 'task-failed':
      return { ...now, state: 'failed', failures: before.failures + (failure?.cost === 'charged' ? 1 : 0), failure };
    case 'failure-corrected': {
      // The cause became known only after the ApplicationMaster had recorded the failure. For example, the cluster may have ended the
      // container.
      const wasCharged = before.failure?.cost === 'charged' && failure?.cost !== 'charged';
      return { ...now, failures: before.failures - (wasCharged ? 1 : 0), failure };
    }
    default:
      return now;
  }
}
