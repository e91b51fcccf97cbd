import type { FrozenJob } from '../../conf/job.ts';
import { conditionsOf } from '../../conf/role-conditions.ts';
import { type HistoryEntry, isTaskOver, type TaskStatus } from '../../conf/status/status.ts';
import { endStateOf } from '../../conf/status/task-failure.ts';

/** Maximum number of tasks to derive. Users can edit the files in a history. */
export const MAXIMUM_TASKS = 100_000;
/** Maximum number of conditions to show for each task that waits for other roles. A page contains them once for each task. */
const MAXIMUM_CONDITIONS = 10;

/**
 * Derives the states of a job's tasks from its events, in time that is linear in the number of events and tasks.
 * @param over whether the job has ended; if so, tasks that have not ended count as stopped
 */
export function tasksOf(frozen: FrozenJob | null, entries: readonly HistoryEntry[], over: boolean): TaskStatus[] {
  const tasks = new Map<string, TaskStatus>();
  for (const { name, instances } of frozen?.job.roles ?? []) {
    for (let index = 0; index < instances && tasks.size < MAXIMUM_TASKS; index++) {
      tasks.set(`${name}:${index}`, unknownTask(name, index));
    }
  }
  const waits = new Map<string | undefined, boolean>();
  const programs = new Set<string>();
  for (const entry of entries) {
    const { role, index } = entry;
    if (role === undefined || index === undefined) {
      if (entry.type === 'role-waits' || entry.type === 'role-released') {
        waits.set(role, entry.type === 'role-waits');
      }
      continue;
    }
    const key = `${role}:${index}`;
    const before = tasks.get(key) ?? unknownTask(role, index);
    if (tasks.has(key) || tasks.size < MAXIMUM_TASKS) {
      const program = isOfProgram(entry) ? `${key} ${entry.containerId} ${entry.generation}` : null;
      const programStarts = before.programStarts + (program === null || programs.has(program) ? 0 : 1);
      tasks.set(key, { ...after(before, entry), programStarts });
      if (program !== null) {
        programs.add(program);
      }
    }
  }
  const conditions = new Map(
    (frozen?.job.roles ?? []).flatMap((role) =>
      frozen !== null && waits.get(role.name) === true
        ? [[role.name, conditionsOf(frozen.job, role).slice(0, MAXIMUM_CONDITIONS)] as const]
        : [],
    ),
  );
  return [...tasks.values()].map((one) => {
    const waitsFor = conditions.get(one.role);
    const task = waitsFor === undefined ? one : { ...one, waitsFor };
    return over && !isTaskOver(task.state) ? { ...task, state: 'stopped' } : task;
  });
}

function unknownTask(role: string, index: number): TaskStatus {
  return {
    role,
    index,
    state: 'requested',
    rank: null,
    generation: 0,
    attempts: 0,
    programStarts: 0,
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

/** Each attempt of the ApplicationMaster may record the start of a program. A program that could not be executed only ends. */
function isOfProgram({ type }: HistoryEntry): boolean {
  return type === 'program-started' || type === 'program-ended';
}

function after(before: TaskStatus, entry: HistoryEntry): TaskStatus {
  const { type, exit = null, failure = null } = entry;
  const generation = Math.max(before.generation, entry.generation ?? 0);
  const now = { ...before, generation };
  switch (type) {
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
    case 'task-failed': {
      const state = failure === null ? 'failed' : endStateOf(failure.cause);
      return { ...now, state, failures: before.failures + (failure?.cost === 'charged' ? 1 : 0), failure };
    }
    case 'failure-corrected':
      return corrected(now, entry);
    default:
      return now;
  }
}

/**
 * Applies a cause that became known only after the ApplicationMaster had recorded the failure. For example, the cluster may have ended the
 * container.
 */
function corrected(before: TaskStatus, { containerId, failure }: HistoryEntry): TaskStatus {
  const failures = Math.max(0, before.failures - (failure?.cost === 'charged' ? 0 : 1));
  // The task may have failed again since, in its next container.
  if (failure === undefined || (containerId !== undefined && containerId !== before.containerId)) {
    return { ...before, failures };
  }
  const hasFailed = before.state === 'failed' || before.state === 'lost';
  return { ...before, failures, failure, state: hasFailed ? endStateOf(failure.cause) : before.state };
}
