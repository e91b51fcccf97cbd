import type { Amounts, Quotas, RoleLimits } from '../../../conf/quota-schema.ts';
import { entryOf } from '../../../conf/quotas.ts';
import { amountsOf } from '../../../hadoop/yarn/resource-amounts.ts';
import { MASTER } from './maximum-capacity.ts';
import { allocation, type SiteResources } from './resource-vector.ts';
import { leafQueues, type SchedulerDraft, type SchedulerView } from './scheduler-draft.ts';

/** Sets each queue's maximum allocation to the size of the largest task that its limits allow. */
export function limitTasks(draft: SchedulerDraft, { quotas, root }: SchedulerView): void {
  const cluster = amountsOf(root.maximumAllocation);
  const smaller: string[] = [];
  for (const queue of leafQueues(root)) {
    const allowed = largestTask(quotas, queue.name);
    const types = Object.keys(cluster).filter((type) => allowed[type] !== undefined);
    if (types.length === 0) {
      continue;
    }
    const now = amountsOf(queue.maximumAllocation);
    const largest: SiteResources = Object.fromEntries(
      Object.entries(now).map(([type, most]) => {
        const task = allowed[type];
        // The limit must be large enough for ApplicationMasters.
        return [type, task === undefined ? most : Math.min(Math.max(task, MASTER[type] ?? 0), cluster[type] ?? 0)];
      }),
    );
    if (Object.entries(now).some(([type, most]) => (largest[type] ?? 0) < most)) {
      smaller.push(queue.path);
    }
    draft.remove(`${queue.path}.maximum-allocation-mb`);
    draft.remove(`${queue.path}.maximum-allocation-vcores`);
    draft.set(`${queue.path}.maximum-allocation`, allocation(largest), `task of quotas.roles and quotas.queues (${types.join(', ')})`);
  }
  if (smaller.length > 0) {
    draft.notice(
      `The maximum container size decreases in ${smaller.join(', ')}. The ResourceManager rejects this change when queues are refreshed, but accepts it on a restart.`,
    );
  }
}

/** Returns the size of the largest task that a queue allows in any role. Omits resource types without a limit. */
export function largestTask(quotas: Quotas, queue: string): Amounts {
  const ofQueue = entryOf(quotas.queues, queue)?.entry;
  const names = new Set([...Object.keys(quotas.roles), ...Object.keys(ofQueue?.roles ?? {}), '*']);
  const all = [...names].flatMap((role) => {
    const limits = [entryOf(quotas.roles, role)?.entry, ofQueue, entryOf(ofQueue?.roles ?? {}, role)?.entry].filter(
      (each) => each !== undefined,
    );
    // Ignore roles for which no tasks are allowed.
    return limits.some(({ instances }) => instances === 0) ? [] : [smallest(limits)];
  });
  const [first = {}, ...others] = all;
  return Object.fromEntries(
    Object.entries(first).flatMap(([type, amount]) => {
      const amounts = [amount, ...others.map((other) => other[type])];
      return amounts.includes(undefined) ? [] : [[type, Math.max(...amounts.map((each) => each ?? 0))]];
    }),
  );
}

function smallest(limits: readonly RoleLimits[]): Record<string, number> {
  const least: Record<string, number> = {};
  for (const { task = {} } of limits) {
    for (const [type, amount] of Object.entries(task)) {
      if (amount !== undefined) {
        least[type] = Math.min(least[type] ?? amount, amount);
      }
    }
  }
  return least;
}
