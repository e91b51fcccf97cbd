import type { CapacityQueue, QueuePartition } from '../../../hadoop/yarn/capacity-queues.ts';
import { amountsOf } from '../../../hadoop/yarn/resource-amounts.ts';
import { TonyError } from '../../../platform/errors.ts';
import { allocation, vector } from './resource-vector.ts';
import { PREFIX, staticQueues } from './scheduler-draft.ts';

/** The scheduler's default values. Properties with these values are omitted, because the admin has probably not configured them. */
const DEFAULTS = { maximumApplications: 10_000, masterPercent: 0.1, rootOrdering: 'utilization', leafOrdering: 'fifo' } as const;
const NOBODY = ' ';

/**
 * Reconstructs the scheduler configuration from the queues that the ResourceManager reports.
 * @throws TonyError USAGE if a queue's size is missing
 */
export function currentProperties(root: CapacityQueue): Map<string, string> {
  const properties = new Map<string, string>();
  // The default calculator considers only memory. The ResourceManager rejects this calculator if there are more than two resource types.
  properties.set(`${PREFIX}resource-calculator`, 'org.apache.hadoop.yarn.util.resource.DominantResourceCalculator');
  const parents = new Map(staticQueues(root).flatMap((queue) => queue.children.map((child) => [child, queue] as const)));
  for (const queue of staticQueues(root)) {
    for (const [key, value] of ofQueue(queue, parents.get(queue) ?? null, root)) {
      properties.set(`${PREFIX}${queue.path}.${key}`, value);
    }
  }
  return properties;
}

function ofQueue(queue: CapacityQueue, parent: CapacityQueue | null, root: CapacityQueue): [string, string][] {
  const children = queue.children.filter(({ dynamic }) => !dynamic);
  const isLeaf = queue.children.length === 0;
  const found: [string, string | null][] = [
    ['queues', children.length === 0 ? null : children.map(({ name }) => name).join(',')],
    ...queue.partitions.flatMap((partition) => sizesOf(queue, partition, parent)),
    ['state', queue.state === 'RUNNING' ? null : 'STOPPED'],
    ['acl_submit_applications', listOr(queue.submitters, parent === null ? '*' : NOBODY)],
    ['acl_administer_queue', listOr(queue.administrators, parent === null ? '*' : NOBODY)],
    ['priority', queue.priority === 0 ? null : String(queue.priority)],
    ['max-parallel-apps', numberOr(queue.maximumParallelApplications, null)],
    ['accessible-node-labels', parent === null || sameNames(queue.labels, parent.labels) ? null : queue.labels.join(',') || NOBODY],
    ['default-node-label-expression', queue.defaultLabel],
  ];
  if (isLeaf) {
    const share = Math.floor((DEFAULTS.maximumApplications * largestShare(queue, root)) / 100);
    // The scheduler reports 0 while no nodes are registered. Do not treat 0 as a configured value.
    const most = queue.maximumApplications ?? share;
    found.push(
      ['minimum-user-limit-percent', numberOr(queue.minimumUserLimitPercent, 100)],
      ['user-limit-factor', numberOr(queue.userLimitFactor, 1)],
      ['maximum-applications', most === 0 || Math.abs(most - share) <= 1 ? null : String(most)],
      ['maximum-am-resource-percent', numberOr(queue.masterPercent, DEFAULTS.masterPercent)],
      ['ordering-policy', queue.ordering === DEFAULTS.leafOrdering ? null : queue.ordering],
      ['maximum-application-lifetime', queue.maximumLifetime > 0 ? String(queue.maximumLifetime) : null],
      ['default-application-lifetime', queue.defaultLifetime > 0 ? String(queue.defaultLifetime) : null],
    );
  } else if (queue.ordering !== DEFAULTS.rootOrdering) {
    found.push(['ordering-policy', queue.ordering]);
  }
  const largest = amountsOf(queue.maximumAllocation);
  if (parent !== null && !sameAmounts(largest, amountsOf(parent.maximumAllocation))) {
    found.push(['maximum-allocation', allocation(largest)]);
  }
  return found.flatMap(([key, value]) => (value === null ? [] : [[key, value]]));
}

function sizesOf(queue: CapacityQueue, partition: QueuePartition, parent: CapacityQueue | null): [string, string | null][] {
  // The root queue always has a capacity of 100 %.
  if (parent === null) {
    return partition.label === '' ? [] : [[`accessible-node-labels.${partition.label}.capacity`, '100']];
  }
  const key = partition.label === '' ? '' : `accessible-node-labels.${partition.label}.`;
  const maximum: [string, string | null] = [
    `${key}maximum-capacity`,
    partition.maximumCapacity >= 100 ? null : String(rounded(partition.maximumCapacity)),
  ];
  switch (queue.mode) {
    case 'percentage':
      return [[`${key}capacity`, String(rounded(partition.capacity))], maximum];
    case 'weight':
      return [[`${key}capacity`, partition.weight < 0 ? null : `${partition.weight}w`], maximum];
    case 'absolute': {
      const above = parent.partitions.find(({ label }) => label === partition.label);
      const most = amountsOf(partition.maximum);
      const isOwn = above !== undefined && !sameAmounts(most, amountsOf(above.maximum));
      return [
        [`${key}capacity`, vector(amountsOf(partition.minimum))],
        [`${key}maximum-capacity`, isOwn ? vector(most) : null],
      ];
    }
    case 'differing':
      throw new TonyError('USAGE', `The size of ${queue.path} differs by resource, and the ResourceManager does not report such sizes.`, {
        hint: 'With --base, pass the capacity-scheduler.xml that the ResourceManager uses.',
      });
  }
}

/**
 * Returns the queue's highest percentage over all node labels. The scheduler calculates the maximum number of applications from this
 * percentage.
 */
function largestShare(queue: CapacityQueue, root: CapacityQueue): number {
  const path = staticQueues(root).filter(({ path: above }) => queue.path.startsWith(`${above}.`) || above === queue.path);
  const shareOf = (label: string): number =>
    path.reduce((share, { partitions }) => (share * (partitions.find((each) => each.label === label)?.capacity ?? 0)) / 100, 100);
  return Math.max(...queue.partitions.map(({ label }) => shareOf(label)));
}

function numberOr(value: number | null, usual: number | null): string | null {
  return value === null || value === usual ? null : String(rounded(value));
}

/** Trim the list, because a list without groups is reported with a space at the end, as in `alice `. */
function listOr(list: string, usual: string): string | null {
  const written = list.trimEnd() || NOBODY;
  return written === usual ? null : written;
}

/** Rounds a percentage. The ResourceManager calculates with 32-bit floats, and reports 33.3 as 33.300003. */
function rounded(value: number): number {
  return Number(value.toFixed(3));
}

function sameNames(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((name) => other.includes(name));
}

function sameAmounts(one: Readonly<Record<string, number>>, other: Readonly<Record<string, number>>): boolean {
  return Object.keys({ ...one, ...other }).every((name) => (one[name] ?? 0) === (other[name] ?? 0));
}
