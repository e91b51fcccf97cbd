import { entryOf } from '../../../conf/quotas.ts';
import type { CapacityQueue } from '../../../hadoop/yarn/capacity-queues.ts';
import { leafQueues, type SchedulerDraft, type SchedulerView, staticQueues } from './scheduler-draft.ts';

const ALL = '*';

/**
 * Returns the node labels that a queue can access according to the site file and its parent queue. Returns null if the queue can access all
 * labels.
 */
export function reachedLabels(queue: CapacityQueue, { quotas, root }: Pick<SchedulerView, 'quotas' | 'root'>): readonly string[] | null {
  const allowed = queue.children.length > 0 ? undefined : entryOf(quotas.queues, queue.name)?.entry.nodeLabels;
  if (allowed === undefined) {
    return queue.labels.includes(ALL) ? null : queue.labels;
  }
  const above = staticQueues(root).find(({ children }) => children.includes(queue))?.labels ?? [ALL];
  return above.includes(ALL) ? allowed : allowed.filter((label) => above.includes(label));
}

/**
 * Sets the accessible labels of each queue to its `nodeLabels`. If a queue loses access to a label, its sibling queues with access receive
 * its share, so that the percentages still add up to 100.
 * @param inAmounts whether sizes are absolute amounts. Absolute amounts need not add up to the size of the parent queue.
 */
export function limitLabels(draft: SchedulerDraft, { quotas, root }: SchedulerView, inAmounts: boolean): void {
  const lost = new Map<CapacityQueue, readonly string[]>();
  for (const queue of leafQueues(root)) {
    const found = entryOf(quotas.queues, queue.name);
    const allowed = found?.entry.nodeLabels;
    const reached = reachedLabels(queue, { quotas, root });
    if (found === null || allowed === undefined || reached === null) {
      continue;
    }
    const path = `quotas.queues.${found.name}.nodeLabels`;
    draft.set(`${queue.path}.accessible-node-labels`, reached.join(',') || ' ', path);
    const outside = allowed.filter((label) => !reached.includes(label));
    if (outside.length > 0) {
      draft.notice(`${path}: ${queue.path} cannot access ${outside.join(', ')}, because one of its parent queues has no access.`);
    }
    for (const label of reached) {
      const has = queue.partitions.some((partition) => partition.label === label && (partition.capacity > 0 || partition.weight > 0));
      if (!has) {
        draft.notice(
          `${path}: ${queue.path} has no capacity on nodes labelled ${label}. Set ${queue.path}.accessible-node-labels.${label}.capacity.`,
        );
      }
    }
    if (queue.defaultLabel !== null && queue.defaultLabel !== '' && !reached.includes(queue.defaultLabel)) {
      draft.remove(`${queue.path}.default-node-label-expression`);
      draft.notice(
        `${path} does not include ${queue.defaultLabel}, the default label of ${queue.path}. Containers that request no label now run on nodes without a label.`,
      );
    }
    const removed = queue.partitions.map(({ label }) => label).filter((label) => label !== '' && !reached.includes(label));
    for (const label of removed) {
      draft.removeBelow(`${queue.path}.accessible-node-labels.${label}.`);
    }
    lost.set(queue, removed);
  }
  if (!inAmounts) {
    for (const parent of staticQueues(root)) {
      shareOut(draft, parent, lost);
    }
  }
}

function shareOut(draft: SchedulerDraft, parent: CapacityQueue, lost: ReadonlyMap<CapacityQueue, readonly string[]>): void {
  const labels = new Set(parent.children.flatMap((child) => lost.get(child) ?? []));
  for (const label of labels) {
    const percents = parent.children
      .filter((child) => child.mode === 'percentage' && !lost.get(child)?.includes(label))
      .map((child) => ({ child, percent: child.partitions.find((each) => each.label === label)?.capacity ?? 0 }));
    const sum = percents.reduce((total, { percent }) => total + percent, 0);
    if (sum === 0) {
      draft.set(`${parent.path}.allow-zero-capacity-sum`, 'true', `no queue below has capacity on nodes labelled ${label}`);
      continue;
    }
    for (const { child, percent } of percents) {
      const share = Number(((100 * percent) / sum).toFixed(3));
      if (percent > 0) {
        giveShare(draft, child, label, share);
      }
    }
  }
}

/**
 * Sets a queue's guaranteed capacity on nodes with a label. Also raises a maximum that is below this capacity, because the scheduler would
 * otherwise reject the queue.
 */
function giveShare(draft: SchedulerDraft, { path }: CapacityQueue, label: string, share: number): void {
  const key = `${path}.accessible-node-labels.${label}`;
  const why = 'includes the share of sibling queues that lost the label';
  draft.set(`${key}.capacity`, String(share), why);
  // Skip a maximum that is a resource vector rather than a number. Also skip -1, which stands for all resources.
  const most = Number(draft.get(`${key}.maximum-capacity`) ?? -1);
  if (!(most >= 0 && most < share)) {
    return;
  }
  draft.set(`${key}.maximum-capacity`, String(share), why);
  draft.notice(
    `The maximum of ${path} on nodes labelled ${label} rises from ${most} % to ${share} %, because sibling queues lose access to these nodes.`,
  );
}
