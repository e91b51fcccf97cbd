import type { HistoryEntry, TaskStatus } from '../../conf/status/status.ts';

export interface LocatedContainer {
  /** Task name, such as `worker:0`. */
  readonly task: string;
  readonly containerId: string;
  /** host:port of the NodeManager, if known. */
  readonly node: string | null;
}

/**
 * Returns all containers of all tasks, including those that have exited. The tasks are in the same order as in the job, and each task's
 * older containers precede its newer ones.
 */
export function orderContainers(tasks: readonly TaskStatus[], history: readonly HistoryEntry[]): LocatedContainer[] {
  const found = new Map<string, LocatedContainer>();
  for (const { containerId, role, index, node } of history) {
    if (containerId === undefined || role === undefined || index === undefined) {
      continue;
    }
    found.set(containerId, { task: `${role}:${index}`, containerId, node: node ?? found.get(containerId)?.node ?? null });
  }
  for (const { role, index, containerId, node } of tasks) {
    if (containerId !== null) {
      found.set(containerId, { task: `${role}:${index}`, containerId, node });
    }
  }
  const order = new Map(tasks.map(({ role, index }, at) => [`${role}:${index}`, at]));
  // The sort is stable and keeps each task's containers in the same order as in the history.
  return [...found.values()].toSorted((a, b) => (order.get(a.task) ?? order.size) - (order.get(b.task) ?? order.size));
}
