import { sumOf } from '../../platform/sum-of.ts';
import { amountsOf } from './resource-amounts.ts';
import { asList, childQueuesOf, type Node, record, resourcesSchema, rootQueueOf, text } from './resource-manager-answers.ts';

/** Resource amounts, keyed by short resource names: memory (MiB), vcores, gpus and other resource types. */
export type Room = Readonly<Record<string, number>>;

/** Limit and usage of a queue or of one of its ancestors, for the nodes that have one label. */
export interface QueueLevel {
  /** Full path, e.g. `root.research.gpu`. */
  readonly path: string;
  /** Maximum resources that the queue can use while all other queues are idle. Null if the scheduler does not report them. */
  readonly maximum: Room | null;
  readonly used: Room;
}

export interface LabelRoom {
  /** The queue itself, followed by its ancestors. */
  readonly levels: readonly QueueLevel[];
  /** The user's limit and usage in the queue. Null if the scheduler has no per-user limit or does not report it. */
  readonly user: { readonly maximum: Room; readonly used: Room } | null;
  /** Combined limit and usage for all ApplicationMasters in the queue. Null if the scheduler does not report them. */
  readonly masters: { readonly maximum: Room; readonly used: Room } | null;
}

/** A queue's state, from which tony-ts predicts whether a job can start. */
export interface QueueRoom {
  readonly path: string;
  readonly state: string;
  /** Node label for containers that do not request one. Empty for nodes without a label. */
  readonly defaultLabel: string;
  readonly runningApplications: number;
  /**
   * Number of containers for which YARN has reserved resources on a node, but which are not running yet. The queue's `used` includes these
   * resources.
   */
  readonly reservedContainers: number;
  /**
   * True if the scheduler takes all resource types into account, and false if it takes only memory into account. Null if this cannot be
   * derived from the usage.
   */
  readonly countsAll: boolean | null;
  /**
   * Memory increment in MiB. YARN rounds a container's memory up to a multiple of this increment. Null if the scheduler does not report it.
   */
  readonly memoryStep: number | null;
  /** Node labels to which the queue has access, or `*` for all labels. Every queue has access to nodes without a label. */
  readonly reaches: readonly string[];
  /** Limits and usage, keyed by node label. Contains the empty label, and every label for which the queue has a share of the nodes. */
  readonly labels: Readonly<Record<string, LabelRoom>>;
}

type Json = Readonly<Record<string, unknown>>;

/**
 * Finds a queue by name or path in the ResourceManager's scheduler response. Returns null if the response does not contain the queue.
 * Possible causes: the name is wrong, the caller may not view the queue, or YARN creates the queue on first use. The Capacity Scheduler
 * reports all fields. The Fair Scheduler reports only the queues' limits and usage, and takes all resource types into account.
 * @param totals the resources of the active nodes with each label. Needed for Hadoop 2, which reports a queue's limits only in percent.
 */
export function queueRoomOf(answer: unknown, name: string, user: string, totals: ReadonlyMap<string, Room> = new Map()): QueueRoom | null {
  const found = pathTo(rootQueueOf(answer), (path) => path === name || path === `root.${name}` || path.endsWith(`.${name}`), []);
  const leaf = found?.at(-1);
  if (found === null || leaf === undefined) {
    return null;
  }
  const upwards = [...found].reverse();
  const labels = ['', ...rows(record(leaf.capacities).queueCapacitiesByPartition).map((row) => text(row.partitionName))];
  return {
    path: pathOf(leaf),
    state: text(leaf.state) || 'RUNNING',
    defaultLabel: label(leaf.defaultNodeLabelExpression),
    runningApplications: number(leaf.numActiveApplications) ?? 0,
    reservedContainers: number(leaf.reservedContainers) ?? 0,
    countsAll: text(record(record(record(answer).scheduler).schedulerInfo).type) === 'fairScheduler' ? true : countsAll(leaf),
    memoryStep: memoryStep(leaf),
    // Missing if the queue does not have access to any label. The Fair Scheduler never reports it.
    reaches: [leaf.nodeLabels]
      .flat()
      .map(text)
      .filter((each) => each !== ''),
    labels: Object.fromEntries(
      [...new Set(labels)].map((each) => [each, labelRoom(upwards, leaf, { name: each, user, total: totals.get(each) })]),
    ),
  };
}

/**
 * Returns the names of all queues if none of them has this name. Returns null if the queue exists or if YARN may create it. `default`
 * counts as existing, because the scheduler's placement rules may replace it.
 */
export function queuesWithout(answer: unknown, name: string): readonly string[] | null {
  const info = record(record(record(answer).scheduler).schedulerInfo);
  if (text(info.type) !== 'capacityScheduler' || name === 'default' || queueRoomOf(answer, name, '') !== null) {
    return null;
  }
  const all = allQueues(info);
  // Hadoop before 3.4 does not report this field. In this case, YARN may create child queues below any queue.
  if (all.some((queue) => text(queue.autoCreationEligibility) !== 'off')) {
    return null;
  }
  return all.filter((queue) => !isParent(queue)).map((queue) => text(queue.queueName).replace(/^.*\./, ''));
}

function allQueues(queue: Json): Json[] {
  return [queue, ...rows(record(queue.queues).queue).flatMap(allQueues)];
}

function isParent(queue: Json): boolean {
  return rows(record(queue.queues).queue).length > 0;
}

function pathTo(queue: Json, wanted: (path: string) => boolean, above: readonly Json[]): readonly Json[] | null {
  const path = [...above, queue];
  const below = childQueuesOf(queue);
  if (below.length === 0) {
    return wanted(pathOf(queue)) ? path : null;
  }
  for (const child of below) {
    const found = pathTo(child, wanted, path);
    if (found !== null) {
      return found;
    }
  }
  return null;
}

function pathOf(queue: Json): string {
  return text(queue.queuePath) || text(queue.queueName);
}

/** Adds up the resources of the active nodes with each label. */
export function totalsOf(nodes: readonly Pick<Node, 'labels' | 'total'>[]): Map<string, Room> {
  const labelOf = ({ labels }: Pick<Node, 'labels'>): string => labels[0] ?? '';
  return new Map(
    [...new Set(nodes.map(labelOf))].map((each) => [
      each,
      amountsOf(sumOf(nodes.filter((node) => labelOf(node) === each).map(({ total }) => total))),
    ]),
  );
}

/** Returns true if the queue's limits can be determined only from the resources of the nodes. */
export function lacksLimits({ labels }: QueueRoom): boolean {
  return Object.values(labels).some(({ levels }) => levels.some(({ maximum }) => maximum === null));
}

function labelRoom(
  upwards: readonly Json[],
  leaf: Json,
  { name, user, total }: { readonly name: string; readonly user: string; readonly total: Room | undefined },
): LabelRoom {
  const own = partition(record(leaf.resources).resourceUsagesByPartition, name);
  const limit = amounts(own?.amLimit) ?? (name === '' ? amounts(leaf.AMResourceLimit) : null);
  const taken = amounts(own?.amUsed) ?? (name === '' ? amounts(leaf.usedAMResource) : null);
  return {
    levels: upwards.map((queue) => ({ path: pathOf(queue), maximum: maximumOf(queue, name, total), used: usedOf(queue, name) })),
    user: userRoom(leaf, name, user),
    masters: limit === null || taken === null ? null : { maximum: limit, used: taken },
  };
}

function maximumOf(queue: Json, name: string, total: Room | undefined): Room | null {
  const capacities = partition(record(queue.capacities).queueCapacitiesByPartition, name);
  const reported = amounts(capacities?.effectiveMaxResource);
  const whole = reported ?? (name === '' ? (amounts(queue.maxEffectiveCapacity) ?? amounts(queue.maxResources)) : null);
  const percent = number(capacities?.absoluteMaxCapacity);
  if (whole !== null || percent === null || total === undefined) {
    return whole;
  }
  return Object.fromEntries(Object.entries(total).map(([resource, amount]) => [resource, Math.floor((amount * percent) / 100)]));
}

/** Returns a queue's usage. If the response does not contain it, as for the root queue, adds up the usage of the child queues. */
function usedOf(queue: Json, name: string): Room {
  const reported = amounts(partition(record(queue.resources).resourceUsagesByPartition, name)?.used);
  if (reported !== null) {
    return reported;
  }
  const whole = name === '' ? (amounts(queue.resourcesUsed) ?? amounts(queue.usedResources)) : null;
  if (whole !== null) {
    return whole;
  }
  return sumOf(childQueuesOf(queue).map((child) => usedOf(child, name)));
}

/**
 * Returns a user's limit and usage. The limit is the queue's share multiplied by its user-limit-factor. `userResourceLimit` in the response
 * cannot be used, because it grows with the usage.
 */
function userRoom(leaf: Json, name: string, user: string): LabelRoom['user'] {
  const factor = number(leaf.userLimitFactor);
  const share =
    amounts(partition(record(leaf.capacities).queueCapacitiesByPartition, name)?.effectiveMinResource) ??
    (name === '' ? amounts(leaf.minEffectiveCapacity) : null);
  if (factor === null || factor < 0 || share === null || (share.memory ?? 0) === 0) {
    return null;
  }
  const maximum = Object.fromEntries(Object.entries(share).map(([resource, amount]) => [resource, Math.floor(amount * factor)]));
  const entry = rows(record(leaf.users).user).find(({ username }) => username === user);
  const used = entry === undefined ? {} : usedOf(entry, name);
  return { maximum, used };
}

/**
 * Derives from the reported usage whether the scheduler takes all resource types into account. The default calculator uses only memory. The
 * dominant calculator uses the resource with the highest relative usage.
 */
function countsAll(leaf: Json): boolean | null {
  const used = amounts(leaf.resourcesUsed);
  const share = amounts(leaf.minEffectiveCapacity);
  const reported = number(leaf.usedCapacity);
  if (used === null || share === null || reported === null || reported <= 0) {
    return null;
  }
  const shares = Object.entries(used).map(([name, amount]) => (100 * amount) / (share[name] || Number.POSITIVE_INFINITY));
  const memory = (100 * (used.memory ?? 0)) / (share.memory || Number.POSITIVE_INFINITY);
  const dominant = Math.max(...shares);
  if (dominant - memory < 1) {
    return null;
  }
  return Math.abs(reported - dominant) < Math.abs(reported - memory);
}

function memoryStep(leaf: Json): number | null {
  const [first] = rows(record(leaf.capacities).queueCapacitiesByPartition);
  const types = rows(record(record(first?.configuredMinResource).resourceInformations).resourceInformation);
  const step = number(types.find(({ name }) => name === 'memory-mb')?.minimumAllocation);
  return step === null || step <= 0 ? null : step;
}

function partition(list: unknown, name: string): Json | undefined {
  return rows(list).find((row) => text(row.partitionName) === name);
}

function amounts(value: unknown): Room | null {
  const parsed = resourcesSchema.safeParse(value);
  return parsed.success ? amountsOf(parsed.data) : null;
}

function rows(value: unknown): Json[] {
  return asList(value).map(record);
}

function number(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) ? value : null;
}

function label(value: unknown): string {
  const expression = text(value).trim();
  return expression === '<DEFAULT_PARTITION>' || expression === '*' ? '' : expression;
}
