import { entryOf } from '../../../conf/quotas.ts';
import type { CapacityQueue, QueuePartition } from '../../../hadoop/yarn/capacity-queues.ts';
import { amountsOf } from '../../../hadoop/yarn/resource-amounts.ts';
import { TonyError } from '../../../platform/errors.ts';
import { firstNames } from '../../../platform/text/first-names.ts';
import { reachedLabels } from './node-labels.ts';
import { type SiteResources, vector } from './resource-vector.ts';
import { hasMixedMode, leafQueues, type SchedulerDraft, type SchedulerView, staticQueues } from './scheduler-draft.ts';

export const MASTER: SiteResources = { memory: 1024, vcores: 1 };

/** Default maximum number of applications in the cluster. */
const MAXIMUM_APPLICATIONS = 10_000;

interface Limit {
  /** Key in the site file, such as `quotas.queues.research.total`. */
  readonly path: string;
  readonly amounts: SiteResources;
}

/**
 * Sets the maximum capacity of each queue to its `total`.
 *
 * In absolute mode, the scheduler ignores an absolute maximum if other queues have sizes in percent. This function therefore replaces every
 * size with the queue's current guarantee, as an absolute amount. In mixed mode, sizes do not change, and a maximum can limit each resource
 * by an amount or a percentage.
 * @returns true if the sizes are now absolute amounts.
 */
export function limitCapacities(draft: SchedulerDraft, view: SchedulerView): boolean {
  const { root } = view;
  const limits = limitsOf(draft, view);
  if (limits.size === 0) {
    return false;
  }
  const types = Object.keys(amountsOf(root.partitions[0]?.maximum ?? {}));
  refuseOldHadoop(view, types);
  refuseMissingNodes(draft, view);
  for (const [queue, { path, amounts }] of limits) {
    const free = types.filter((type) => amounts[type] === undefined);
    if (view.queueMode === 'absolute' && free.length > 0) {
      draft.notice(
        `${path} does not limit ${free.join(', ')}, so the file contains the current maximum of ${queue.path} for these resources. If the cluster shrinks below this maximum, the scheduler ignores the queue's entire maximum. If the cluster grows, the maximum stays the same. Generate the file again in both cases, or use --queue-mode mixed (Hadoop 3.4 or newer).`,
      );
    }
  }
  if (view.queueMode === 'mixed') {
    draft.set('legacy-queue-mode.enabled', 'false', 'required for a maximum that limits some resources only');
    for (const [queue, limit] of limits) {
      for (const { key, own, above } of partitionsOf(queue, view)) {
        const most = within(limit, own, above, view.masters);
        const share = `${Number(own.maximumCapacity.toFixed(3))}%`;
        const written = Object.entries(most).map(([type, amount]): [string, number | string] => {
          if (limit.amounts[type] !== undefined) {
            return [type, amount];
          }
          if (amount >= (above[type] ?? 0)) {
            return [type, '100%'];
          }
          return [type, Math.floor(((above[type] ?? 0) * own.maximumCapacity) / 100) === amount ? share : amount];
        });
        draft.set(`${key}maximum-capacity`, vector(Object.fromEntries(written)), limit.path);
      }
    }
    return false;
  }
  const maker = staticQueues(root).find(({ makesQueues, children }) => makesQueues || children.some(({ dynamic }) => dynamic));
  if (maker !== undefined) {
    throw new TonyError('USAGE', `YARN creates queues below ${maker.path} on first use, and such queues cannot have absolute sizes.`, {
      hint: 'Use --queue-mode mixed (Hadoop 3.4 or newer).',
    });
  }
  for (const queue of staticQueues(root)) {
    if (queue !== root) {
      setAmounts(draft, queue, limits.get(queue) ?? null, view);
    }
  }
  setMaximumApplications(draft, view);
  return true;
}

const MOST_NAMED = 5;

/** Rejects clusters with missing nodes, because sizes that are calculated without these nodes would be too small when the nodes return. */
function refuseMissingNodes(draft: SchedulerDraft, { missingNodes, allowMissingNodes }: SchedulerView): void {
  if (missingNodes.length === 0) {
    return;
  }
  const named = firstNames(missingNodes, MOST_NAMED);
  if (allowMissingNodes) {
    draft.notice(`The queue sizes do not include the resources of ${named}. Generate the file again when the nodes are back.`);
    return;
  }
  throw new TonyError('USAGE', `Cluster nodes are missing (${named}), so the queue sizes would be too small.`, {
    hint: "Run the command again when the nodes are back or decommissioned, or add --allow-missing-nodes to use the cluster's current size.",
  });
}

/**
 * Sets the maximum number of applications for each queue. By default, the scheduler calculates this number from the queue's share of the
 * cluster. With absolute sizes, this share is 0 after the scheduler restarts, until the first nodes register. During that time, the
 * scheduler would reject all submissions and recovered jobs.
 */
function setMaximumApplications(draft: SchedulerDraft, { root }: SchedulerView): void {
  for (const { path, maximumApplications } of leafQueues(root)) {
    const name = `${path}.maximum-applications`;
    if (draft.get(name) !== undefined) {
      continue;
    }
    const count = maximumApplications === null || maximumApplications < 1 ? MAXIMUM_APPLICATIONS : maximumApplications;
    draft.set(name, String(count), 'with absolute sizes, the scheduler would compute 0 until nodes register');
  }
}

/**
 * Rejects Hadoop versions before 3.4 if the configuration needs a newer version. Older versions do not support mixed mode, and their
 * absolute sizes cover only memory and vcores.
 */
function refuseOldHadoop({ hadoopVersion, queueMode }: SchedulerView, types: readonly string[]): void {
  if (hasMixedMode(hadoopVersion)) {
    return;
  }
  const others = types.filter((type) => type !== 'memory' && type !== 'vcores');
  const reason =
    queueMode === 'mixed'
      ? 'does not support mixed mode'
      : `supports absolute sizes for memory and vcores only, so queues would have no ${others.join(', ')}`;
  if (queueMode === 'absolute' && others.length === 0) {
    return;
  }
  throw new TonyError('USAGE', `Cannot write queue totals: Hadoop ${hadoopVersion} ${reason}.`, {
    hint: "Remove the total from quotas.queues in your own copy of the site file (TONY_CONF_DIR), and set the queue's maximum-capacity as a percentage by hand.",
  });
}

function setAmounts(draft: SchedulerDraft, queue: CapacityQueue, limit: Limit | null, view: SchedulerView): void {
  for (const { key, own, above } of partitionsOf(queue, view)) {
    const most = limit === null ? amountsOf(own.maximum) : within(limit, own, above, view.masters);
    const guaranteed = amountsOf(own.minimum);
    const least = Object.fromEntries(Object.entries(guaranteed).map(([type, amount]) => [type, Math.min(amount, most[type] ?? 0)]));
    const cut = Object.entries(guaranteed).filter(([type, amount]) => amount > (least[type] ?? 0));
    if (cut.length > 0) {
      draft.notice(
        `The guaranteed capacity of ${queue.path} exceeded ${limit?.path} for ${cut.map(([type]) => type).join(', ')} and is reduced to that limit. The excess is not guaranteed to any queue.`,
      );
    }
    const why = limit === null ? 'absolute, because other queues have absolute limits' : limit.path;
    draft.set(`${key}capacity`, vector(least), why);
    const isOwn = limit !== null || Object.entries(above).some(([type, amount]) => (most[type] ?? 0) < amount);
    if (isOwn) {
      draft.set(`${key}maximum-capacity`, vector(most), why);
    } else {
      draft.remove(`${key}maximum-capacity`);
    }
  }
}

/**
 * Returns the node labels that the queue can access. The result contains, for each label, the property prefix, the queue's capacities and
 * the parent queue's maximum.
 */
function partitionsOf(
  queue: CapacityQueue,
  view: SchedulerView,
): { readonly key: string; readonly own: QueuePartition; readonly above: SiteResources }[] {
  const parent = staticQueues(view.root).find(({ children }) => children.includes(queue));
  const reached = reachedLabels(queue, view);
  return queue.partitions.flatMap((own) => {
    if (own.label !== '' && !(reached === null || reached.includes(own.label))) {
      return [];
    }
    const key = own.label === '' ? `${queue.path}.` : `${queue.path}.accessible-node-labels.${own.label}.`;
    const above = amountsOf(parent?.partitions.find(({ label }) => label === own.label)?.maximum ?? own.maximum);
    return [{ key, own, above }];
  });
}

/**
 * Adds the resources of `masters` ApplicationMasters to a limit, because the scheduler counts ApplicationMasters toward the limit, whereas
 * totals exclude them. Limits the result to the parent queue's maximum.
 */
function within({ amounts }: Limit, own: QueuePartition, above: SiteResources, masters: number): SiteResources {
  const now = amountsOf(own.maximum);
  return Object.fromEntries(
    Object.entries(now).map(([type, most]) => {
      const amount = amounts[type];
      return [type, amount === undefined ? most : Math.min(amount + masters * (MASTER[type] ?? 0), above[type] ?? 0)];
    }),
  );
}

function limitsOf(draft: SchedulerDraft, { quotas, root }: SchedulerView): Map<CapacityQueue, Limit> {
  const types = Object.keys(amountsOf(root.partitions[0]?.maximum ?? {}));
  const leaves = leafQueues(root);
  const limits = new Map<CapacityQueue, Limit>();
  for (const queue of leaves) {
    const found = entryOf(quotas.queues, queue.name);
    const path = `quotas.queues.${found?.name}.total`;
    const amounts: Record<string, number> = {};
    for (const [type, amount] of Object.entries(found?.entry.total ?? {})) {
      if (amount === undefined || type === 'instances') {
        continue;
      }
      if (types.includes(type)) {
        amounts[type] = amount;
      } else {
        draft.notice(`The file omits ${path}.${type}, because the cluster has no such resource type.`);
      }
    }
    if (Object.keys(amounts).length > 0) {
      limits.set(queue, { path, amounts });
    }
  }
  for (const [queue, { path }] of limits) {
    const others = leaves.filter(({ name, path: other }) => name === queue.name && other !== queue.path);
    if (others.length > 0) {
      draft.notice(
        `${path} limits the sum over all queues named ${queue.name}; YARN applies the limit to each of these queues separately.`,
      );
    }
    if (queue.partitions.length > 1) {
      draft.notice(`${path} limits the sum over all nodes; YARN applies the limit to the nodes of each label separately.`);
    }
  }
  return limits;
}
