import type { HistoryEntry, JobStatus } from '../../conf/status.ts';

export interface TaskContainer {
  /** `worker:0` */
  readonly task: string;
  readonly containerId: string;
  /** host:port of the NodeManager, if known. */
  readonly node: string | null;
  /** host:port of that NodeManager's web server, if known. */
  readonly nodeHttp: string | null;
}

/** Returns all containers that a job's tasks have had: by task in the job's order, oldest first within a task. */
export function orderContainers(status: JobStatus | null, history: readonly HistoryEntry[]): TaskContainer[] {
  const found = new Map<string, TaskContainer>();
  for (const { containerId, role, index, node } of history) {
    if (containerId === undefined || role === undefined || index === undefined) {
      continue;
    }
    found.set(containerId, { task: `${role}:${index}`, containerId, node: node ?? found.get(containerId)?.node ?? null, nodeHttp: null });
  }
  for (const { role, index, containerId, node, nodeHttp } of status?.tasks ?? []) {
    if (containerId !== null) {
      found.set(containerId, { task: `${role}:${index}`, containerId, node, nodeHttp });
    }
  }
  const order = new Map(status?.tasks.map(({ role, index }, at) => [`${role}:${index}`, at]));
  // The order within a task is that of the history, because a Map keeps insertion order and sorting is stable.
  return [...found.values()].toSorted((a, b) => (order.get(a.task) ?? order.size) - (order.get(b.task) ?? order.size));
}
