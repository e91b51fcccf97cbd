import { resourcesSchema } from './resource-manager-answers.ts';
import { amountsOf } from './running-job.ts';

/** Amounts by the names of job.yaml: memory (MiB), vcores, gpus, other resource types. */
export type Room = Readonly<Record<string, number>>;

/** What a queue, or one above it, may have of the nodes of one label, and has. */
export interface QueueLevel {
  /** `root.research.gpu` */
  readonly path: string;
  /** The most that it may have, when all others have nothing; null when nobody says. */
  readonly maximum: Room | null;
  readonly used: Room;
}

/** What there is of the nodes of one label. */
export interface LabelRoom {
  /** The queue itself first, then those above it. */
  readonly levels: readonly QueueLevel[];
  /** What is the user's at most of the queue, and is the user's; null where nobody says, or nothing but the queue limits it. */
  readonly user: { readonly maximum: Room; readonly used: Room } | null;
  /** What ApplicationMasters of the queue may have together, and have; null where nobody says. */
  readonly masters: { readonly maximum: Room; readonly used: Room } | null;
}

/** One queue of the scheduler, as far as it decides whether a job begins. */
export interface QueueRoom {
  readonly path: string;
  /** RUNNING, STOPPED, DRAINING */
  readonly state: string;
  /** Of containers that name none; empty for the nodes without a label. */
  readonly defaultLabel: string;
  readonly runningApplications: number;
  /** Whether the scheduler counts more than memory; null when it cannot be told by what is used. */
  readonly countsAll: boolean | null;
  /** Every container's memory is a multiple of it (MiB); null where nobody says. */
  readonly memoryStep: number | null;
  /** Labels of the nodes that it may use; `*` is all. On nodes without a label every queue may run. */
  readonly reaches: readonly string[];
  /** Of the labels of which it has a share, with the empty one always among them. */
  readonly labels: Readonly<Record<string, LabelRoom>>;
}

type Json = Readonly<Record<string, unknown>>;

/**
 * A queue by its name or path in what the ResourceManager says of its scheduler; null when it is not there: who asks may not see it, it is made
 * when it is first used, or the name is wrong.
 *
 * Of the Capacity Scheduler all, of the Fair Scheduler what the queues may have and have.
 */
export function queueRoomOf(answer: unknown, name: string, user: string): QueueRoom | null {
  const info = record(record(record(answer).scheduler).schedulerInfo);
  // The Fair Scheduler puts its root one level deeper.
  const root = record(info.rootQueue).queueName === undefined ? info : record(info.rootQueue);
  const found = pathTo(root, (path) => path === name || path === `root.${name}` || path.endsWith(`.${name}`), []);
  const leaf = found?.at(-1);
  if (found === null || leaf === undefined) return null;
  const upwards = [...found].reverse();
  const labels = ['', ...rows(record(leaf.capacities).queueCapacitiesByPartition).map((row) => text(row.partitionName))];
  return {
    path: pathOf(leaf),
    state: text(leaf.state) || 'RUNNING',
    defaultLabel: label(leaf.defaultNodeLabelExpression),
    runningApplications: number(leaf.numActiveApplications) ?? 0,
    countsAll: countsAll(leaf),
    memoryStep: memoryStep(leaf),
    // Left out where it is none, as always by the Fair Scheduler.
    reaches: [leaf.nodeLabels]
      .flat()
      .map(text)
      .filter((each) => each !== ''),
    labels: Object.fromEntries([...new Set(labels)].map((each) => [each, labelRoom(upwards, leaf, each, user)])),
  };
}

function pathTo(queue: Json, wanted: (path: string) => boolean, above: readonly Json[]): readonly Json[] | null {
  const path = [...above, queue];
  const below = [...rows(queue.queues, 'queue'), ...rows(queue.childQueues, 'queue')];
  if (below.length === 0) return wanted(pathOf(queue)) ? path : null;
  for (const child of below) {
    const found = pathTo(child, wanted, path);
    if (found !== null) return found;
  }
  return null;
}

function pathOf(queue: Json): string {
  return text(queue.queuePath) || text(queue.queueName);
}

function labelRoom(upwards: readonly Json[], leaf: Json, name: string, user: string): LabelRoom {
  const own = partition(record(leaf.resources).resourceUsagesByPartition, name);
  const limit = amounts(own?.amLimit) ?? (name === '' ? amounts(leaf.AMResourceLimit) : null);
  const taken = amounts(own?.amUsed) ?? (name === '' ? amounts(leaf.usedAMResource) : null);
  return {
    levels: upwards.map((queue) => ({ path: pathOf(queue), maximum: maximumOf(queue, name), used: usedOf(queue, name) })),
    user: userRoom(leaf, name, user),
    masters: limit === null || taken === null ? null : { maximum: limit, used: taken },
  };
}

function maximumOf(queue: Json, name: string): Room | null {
  const told = amounts(partition(record(queue.capacities).queueCapacitiesByPartition, name)?.effectiveMaxResource);
  if (told !== null || name !== '') return told;
  return amounts(queue.maxEffectiveCapacity) ?? amounts(queue.maxResources);
}

/** Of the root nothing is told but what is below it. */
function usedOf(queue: Json, name: string): Room {
  const told = amounts(partition(record(queue.resources).resourceUsagesByPartition, name)?.used);
  if (told !== null) return told;
  const whole = name === '' ? (amounts(queue.resourcesUsed) ?? amounts(queue.usedResources)) : null;
  if (whole !== null) return whole;
  const sum: Record<string, number> = {};
  for (const child of [...rows(queue.queues, 'queue'), ...rows(queue.childQueues, 'queue')]) {
    for (const [resource, amount] of Object.entries(usedOf(child, name))) sum[resource] = (sum[resource] ?? 0) + amount;
  }
  return sum;
}

/**
 * `userResourceLimit` of the answer grows with what is used, so it says nothing of what may come; what no user gets beyond is the queue's own share
 * times its user-limit-factor.
 */
function userRoom(leaf: Json, name: string, user: string): LabelRoom['user'] {
  const factor = number(leaf.userLimitFactor);
  const share =
    amounts(partition(record(leaf.capacities).queueCapacitiesByPartition, name)?.effectiveMinResource) ??
    (name === '' ? amounts(leaf.minEffectiveCapacity) : null);
  if (factor === null || factor < 0 || share === null || (share.memory ?? 0) === 0) return null;
  const maximum = Object.fromEntries(Object.entries(share).map(([resource, amount]) => [resource, Math.floor(amount * factor)]));
  const entry = rows(leaf.users, 'user').find(({ username }) => username === user);
  const used = entry === undefined ? {} : usedOf(entry, name);
  return { maximum, used };
}

/** The default resource calculator sees nothing but memory, the dominant one the resource of which most is used. */
function countsAll(leaf: Json): boolean | null {
  const used = amounts(leaf.resourcesUsed);
  const share = amounts(leaf.minEffectiveCapacity);
  const told = number(leaf.usedCapacity);
  if (used === null || share === null || told === null || told <= 0) return null;
  const shares = Object.entries(used).map(([name, amount]) => (100 * amount) / (share[name] || Number.POSITIVE_INFINITY));
  const memory = (100 * (used.memory ?? 0)) / (share.memory || Number.POSITIVE_INFINITY);
  const dominant = Math.max(...shares);
  if (dominant - memory < 1) return null;
  return Math.abs(told - dominant) < Math.abs(told - memory);
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

/** A list in all of Jersey's spellings of it. */
function rows(value: unknown, key?: string): Json[] {
  const list = key === undefined ? value : record(value)[key];
  if (list === undefined || list === null || list === '') return [];
  return (Array.isArray(list) ? list : [list]).map(record);
}

function record(value: unknown): Json {
  return typeof value === 'object' && value !== null ? (value as Json) : {};
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function number(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) ? value : null;
}

/** An expression of one label, or of none. */
function label(value: unknown): string {
  const expression = text(value).trim();
  return expression === '<DEFAULT_PARTITION>' || expression === '*' ? '' : expression;
}
