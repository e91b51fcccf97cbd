import type { UsageSample } from '../../../../conf/status/status.ts';

/** The maximum number of samples that a page keeps. If a page is open for days, it drops some of the older samples. */
const MOST_SAMPLES = 1_200;

/** Appends samples that are newer than all known samples. Samples are in chronological order. */
export function withSamples(known: readonly UsageSample[], added: readonly UsageSample[]): readonly UsageSample[] {
  const last = known.at(-1)?.at ?? Number.NEGATIVE_INFINITY;
  const fresh = added.filter(({ at }) => at > last);
  if (fresh.length === 0) {
    return known;
  }
  const all = [...known, ...fresh];
  if (all.length <= MOST_SAMPLES) {
    return all;
  }
  const half = Math.ceil(all.length / 2);
  return all.filter((_, index) => index >= half || index % 2 === 0);
}

export const RESOURCES = ['memory', 'cpu', 'gpu', 'gpuMemory'] as const;
export type ResourceName = (typeof RESOURCES)[number];

const VALUE: Readonly<Record<ResourceName, (task: UsageSample['tasks'][number]) => number | null>> = {
  memory: ({ memoryBytes }) => memoryBytes,
  cpu: ({ cpuCores }) => cpuCores,
  gpu: ({ gpuUtilization }) => (gpuUtilization === null ? null : gpuUtilization * 100),
  gpuMemory: ({ gpuMemoryBytes }) => gpuMemoryBytes,
};

export type Grouping = 'tasks' | 'mean' | 'highest' | 'sum';

export interface UsageLine {
  readonly name: string;
  /** One value per sample, or null for a time at which the task did not exist. */
  readonly values: readonly (number | null)[];
}

/**
 * Returns one line per task or role.
 * @param only a role (`worker`) or a task (`worker:3`) to show; empty for all.
 */
export function usageLines(samples: readonly UsageSample[], resource: ResourceName, grouping: Grouping, only: string): UsageLine[] {
  const lines = new Map<string, (number | null)[]>();
  const counts = new Map<string, number>();
  samples.forEach(({ tasks }, at) => {
    counts.clear();
    for (const task of tasks) {
      const role = roleOf(task.task);
      if (only !== '' && only !== task.task && only !== role) {
        continue;
      }
      const value = VALUE[resource](task);
      if (value === null) {
        continue;
      }
      const name = grouping === 'tasks' || only === task.task ? task.task : role;
      let line = lines.get(name);
      if (line === undefined) {
        line = new Array<number | null>(samples.length).fill(null);
        lines.set(name, line);
      }
      const before = line[at] ?? null;
      line[at] = before === null ? value : grouping === 'highest' ? Math.max(before, value) : before + value;
      counts.set(name, (counts.get(name) ?? 0) + 1);
    }
    if (grouping !== 'mean') {
      return;
    }
    for (const [name, count] of counts) {
      const line = lines.get(name);
      const total = line?.[at];
      if (line !== undefined && total !== undefined && total !== null) {
        line[at] = total / count;
      }
    }
  });
  return [...lines].map(([name, values]) => ({ name, values })).sort((a, b) => a.name.localeCompare(b.name, 'en', { numeric: true }));
}

function roleOf(task: string): string {
  return task.slice(0, task.lastIndexOf(':'));
}
