import type { QueueRoom, Room } from '../../hadoop/queue-room.ts';
import type { PlannedContainers } from './job-plan.ts';

/** What a job would ask for. */
export type Ask = Omit<PlannedContainers, 'fitNow'>;

export interface NodeRoom {
  readonly host: string;
  /** Others are unhealthy: nothing is started there now, but they may come back. */
  readonly usable: boolean;
  readonly labels: readonly string[];
  /** A resource type that is not named is not told. */
  readonly total: Room;
  readonly free: Room;
}

/** Whether the scheduler looks at a resource type at all. */
export type Counted = (resource: string) => boolean;

/** The ask whose container is there before any other. */
export const MASTER = 'ApplicationMaster';

interface PlacementOptions {
  /** Of asks that name no label. */
  readonly defaultLabel: string;
  readonly counted: Counted;
  /** What is left of everything that bounds the job in its queue, by label; `budgetsOf`. */
  readonly budgets?: ReadonlyMap<string, readonly Room[]>;
}

/**
 * Puts containers on nodes, the largest first and each where least is left over: first what the job needs, then what it takes besides.
 * Answers by role how many found a place. YARN may place them otherwise; more than the nodes hold it does not place either.
 */
export function placed(
  asks: readonly Ask[],
  nodes: readonly NodeRoom[],
  { defaultLabel, counted, budgets }: PlacementOptions,
): ReadonlyMap<string, number> {
  const free = nodes.filter(({ usable }) => usable).map((node) => ({ node, left: { ...node.free } as Record<string, number> }));
  const limits = new Map(
    [...(budgets ?? [])].map(([label, rooms]) => [label, rooms.map((room) => ({ ...room }) as Record<string, number>)]),
  );
  const counts = new Map(asks.map(({ role }) => [role, 0]));
  const place = ({ role, resources, nodeLabel }: Ask, wanted: number): void => {
    const label = nodeLabel ?? defaultLabel;
    const bounds = budgets === undefined ? [] : limits.get(label);
    // Of these nodes the queue has nothing.
    if (bounds === undefined) return;
    const fitting = free.filter(({ node, left }) => isOf(node, label) && holds(left, resources, counted));
    let count = 0;
    // A node that has just got one is left with even less, so it stays the one to take.
    for (const { left } of fitting.sort((a, b) => byTightness(a.left, b.left))) {
      while (count < wanted && holds(left, resources, counted) && bounds.every((bound) => allows(bound, resources, counted))) {
        for (const room of [left, ...bounds]) {
          for (const [resource, amount] of asked(resources)) if (room[resource] !== undefined) room[resource] -= amount;
        }
        count++;
      }
      if (count === wanted) break;
    }
    counts.set(role, (counts.get(role) ?? 0) + count);
  };
  const needed = asks
    .filter(({ optional }) => !optional)
    .sort((a, b) => Number(b.role === MASTER) - Number(a.role === MASTER) || bySize(a, b));
  for (const ask of needed) place(ask, ask.instances.least);
  for (const ask of asks) {
    if (ask.optional) place(ask, ask.instances.least);
    // Tasks beyond the least are asked for when the others are there.
    if (counts.get(ask.role) === ask.instances.least) place(ask, ask.instances.most - ask.instances.least);
  }
  return counts;
}

/** What is left of the queue, of those above it, and of what its user may have, by label; a resource type that is not named is not bounded. */
export function budgetsOf(queue: QueueRoom): Map<string, Room[]> {
  return new Map(
    Object.entries(queue.labels).map(([label, { levels, user }]) => {
      const bounds = [...levels, ...(user === null ? [] : [user])];
      return [label, bounds.flatMap(({ maximum, used }) => (maximum === null ? [] : [lessUsed(maximum, used)]))];
    }),
  );
}

/** What is left to the user of the queue by all that bounds it. */
export function freeInQueue(queue: QueueRoom): Room {
  const free: Record<string, number> = {};
  for (const left of budgetsOf(queue).get(queue.defaultLabel) ?? []) {
    for (const [resource, amount] of Object.entries(left)) free[resource] = Math.max(0, Math.min(free[resource] ?? amount, amount));
  }
  return free;
}

function lessUsed(maximum: Room, used: Room): Room {
  return Object.fromEntries(Object.entries(maximum).map(([resource, most]) => [resource, most - (used[resource] ?? 0)]));
}

/** Each node has one label or none; containers without one go to nodes without one. */
export function isOf({ labels }: NodeRoom, label: string): boolean {
  return label === '' ? labels.every((each) => each === '') : labels.includes(label);
}

/** Whether all of it is there at one place. */
export function holds(room: Room, resources: Room, counted: Counted): boolean {
  return asked(resources).every(([name, amount]) => !counted(name) || (room[name] ?? 0) >= amount);
}

/** Whether all of it is within a bound; what the bound does not name it does not limit. */
export function allows(bound: Room, resources: Room, counted: Counted): boolean {
  return asked(resources).every(([name, amount]) => !counted(name) || bound[name] === undefined || bound[name] >= amount);
}

export function asked(resources: Room): [string, number][] {
  return Object.entries(resources).filter(([, amount]) => amount > 0);
}

export function times(resources: Room, factor: number): Room {
  return Object.fromEntries(Object.entries(resources).map(([name, amount]) => [name, amount * factor]));
}

/** GPUs are what is rare. */
function byTightness(one: Room, other: Room): number {
  return (one.gpus ?? 0) - (other.gpus ?? 0) || (one.memory ?? 0) - (other.memory ?? 0);
}

function bySize(a: Ask, b: Ask): number {
  return (b.resources.gpus ?? 0) - (a.resources.gpus ?? 0) || (b.resources.memory ?? 0) - (a.resources.memory ?? 0);
}
