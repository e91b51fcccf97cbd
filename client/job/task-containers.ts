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

/** Returns all containers of a job's tasks, including past ones: by task in the job's order, and oldest first within a task. */
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
  // Within a task, the containers keep the order of the history: a Map keeps insertion order, and sorting is stable.
  return [...found.values()].toSorted((a, b) => (order.get(a.task) ?? order.size) - (order.get(b.task) ?? order.size));
}
