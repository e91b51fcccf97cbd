import { describeFailure } from '../../../../conf/status/event-text.ts';
import {
  awaitedRoles,
  gpuUtilization,
  restartsOf,
  type TaskState,
  type TaskStatus,
  taskStateText,
} from '../../../../conf/status/status.ts';
import { containsWords } from '../parts/controls.ts';

export function nameOf({ role, index }: Pick<TaskStatus, 'role' | 'index'>): string {
  return `${role}:${index}`;
}

export type SortKey = 'task' | 'state' | 'node' | 'generation' | 'restarts' | 'heartbeat' | 'step' | 'memory' | 'cpu' | 'gpu';

export interface Sort {
  readonly key: SortKey;
  readonly descending: boolean;
}

const STATES: readonly TaskState[] = ['failed', 'lost', 'requested', 'launching', 'registered', 'running', 'stopped', 'succeeded'];

/** Returns the mean utilisation of the task's GPUs, from 0 to 1, or null if the task has no GPUs. */
export function gpuOf({ usage }: TaskStatus): number | null {
  return usage && gpuUtilization(usage);
}

const KEYS: Readonly<Record<SortKey, (task: TaskStatus) => number | string | null>> = {
  task: ({ index }) => index,
  state: ({ state }) => STATES.indexOf(state),
  node: ({ node }) => node,
  generation: ({ generation }) => generation,
  restarts: restartsOf,
  heartbeat: ({ silentMs }) => silentMs,
  step: ({ step }) => step,
  memory: ({ usage }) => usage?.memoryBytes ?? null,
  cpu: ({ usage }) => usage?.cpuCores ?? null,
  gpu: gpuOf,
};

/** Sorts the tasks. Tasks without a value come last in both directions. */
export function sorted(tasks: readonly TaskStatus[], { key, descending }: Sort): TaskStatus[] {
  const value = KEYS[key];
  const sign = descending ? -1 : 1;
  return [...tasks].sort((a, b) => {
    const left = value(a);
    const right = value(b);
    if (left === null || right === null) {
      return Number(left === null) - Number(right === null) || a.index - b.index;
    }
    const order =
      typeof left === 'string' || typeof right === 'string'
        ? String(left).localeCompare(String(right), 'en', { numeric: true })
        : left - right;
    return sign * order || a.index - b.index;
  });
}

export function matches(task: TaskStatus, filter: string): boolean {
  const failure = task.failure === null ? '' : describeFailure(task.failure, task.role);
  return containsWords([nameOf(task), task.state, taskStateText(task), task.node, failure, task.containerId].join('\n'), filter);
}

export interface RoleTasks {
  readonly role: string;
  readonly tasks: readonly TaskStatus[];
}

/** Groups the tasks by role, in the order of the job's roles. */
export function byRole(tasks: readonly TaskStatus[]): RoleTasks[] {
  const roles = new Map<string, TaskStatus[]>();
  for (const task of tasks) {
    const of = roles.get(task.role);
    if (of === undefined) {
      roles.set(task.role, [task]);
    } else {
      of.push(task);
    }
  }
  return [...roles].map(([role, of]) => ({ role, tasks: of }));
}

/** Returns the state counts as text, for example `2 running, 1 waiting for prepare`. */
export function countsText(tasks: readonly TaskStatus[]): string {
  return stateCounts(tasks)
    .map(({ text, count }) => `${count} ${text}`)
    .join(', ');
}

export interface StateCount {
  readonly state: TaskState;
  readonly text: string;
  readonly count: number;
}

export function stateCounts(tasks: readonly TaskStatus[]): StateCount[] {
  const counts = new Map<string, StateCount>();
  for (const task of sorted(tasks, { key: 'state', descending: false })) {
    const roles = awaitedRoles(task);
    const text = roles.length === 0 ? task.state : `waiting for ${roles.join(', ')}`;
    counts.set(text, { state: task.state, text, count: (counts.get(text)?.count ?? 0) + 1 });
  }
  return [...counts.values()];
}
