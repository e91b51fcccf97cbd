import type { QueueRoom, Room } from '../../hadoop/yarn/queue-room.ts';
import type { PlannedContainers } from './job-plan.ts';

export type PlannedAsk = Omit<PlannedContainers, 'fitNow'>;

export interface NodeRoom {
  readonly host: string;
  /** Whether YARN currently starts containers on the node. False for an unhealthy node, for example. */
  readonly usable: boolean;
  readonly labels: readonly string[];
  /** The node's total resources. If a resource type is missing, its amount is unknown. */
  readonly total: Room;
  readonly free: Room;
}

/** Returns true if the scheduler takes a resource type into account. */
export type Counted = (resource: string) => boolean;

/** Name for the ApplicationMaster's container request. Other requests have role names. */
export const MASTER = 'ApplicationMaster';

export function masterAsk(resources: Room, nodeLabel: string | null): PlannedAsk {
  return { role: MASTER, instances: { min: 1, max: 1 }, resources, nodeLabel, optional: false, ranks: null, command: null };
}

interface PlacementOptions {
  /** Node label for requests that do not specify one. */
  readonly defaultLabel: string;
  readonly counted: Counted;
  /** For each node label, the free resources under each of the queue's limits; see `budgetsOf`. */
  readonly budgets?: ReadonlyMap<string, readonly Room[]>;
}

/**
 * Returns how many containers of each role fit on the nodes. Simulates a placement: required containers before optional ones, large ones
 * before small ones, and each container on the node with the fewest free resources. YARN may place containers differently.
 */
export function placed(
  asks: readonly PlannedAsk[],
  nodes: readonly NodeRoom[],
  { defaultLabel, counted, budgets }: PlacementOptions,
): ReadonlyMap<string, number> {
  const free = nodes.filter(({ usable }) => usable).map((node) => ({ node, left: { ...node.free } as Record<string, number> }));
  const limits = new Map(
    [...(budgets ?? [])].map(([label, rooms]) => [label, rooms.map((room) => ({ ...room }) as Record<string, number>)]),
  );
  const counts = new Map(asks.map(({ role }) => [role, 0]));
  const place = ({ role, resources, nodeLabel }: PlannedAsk, wanted: number): void => {
    const label = nodeLabel ?? defaultLabel;
    const bounds = budgets === undefined ? [] : limits.get(label);
    // The queue is not allowed to use nodes with this label.
    if (bounds === undefined) {
      return;
    }
    const fitting = free.filter(({ node, left }) => isOf(node, label) && holds(left, resources, counted));
    let count = 0;
    // After a placement, the node has even fewer free resources, so it remains the first choice.
    for (const { left } of fitting.sort((a, b) => byTightness(a.left, b.left))) {
      while (count < wanted && holds(left, resources, counted) && bounds.every((bound) => allows(bound, resources, counted))) {
        for (const room of [left, ...bounds]) {
          for (const [resource, amount] of asked(resources)) {
            if (room[resource] !== undefined) {
              room[resource] -= amount;
            }
          }
        }
        count++;
      }
      if (count === wanted) {
        break;
      }
    }
    counts.set(role, (counts.get(role) ?? 0) + count);
  };
  const needed = asks
    .filter(({ optional }) => !optional)
    .sort((a, b) => Number(b.role === MASTER) - Number(a.role === MASTER) || bySize(a, b));
  for (const ask of needed) {
    place(ask, ask.instances.min);
  }
  for (const ask of asks) {
    if (ask.optional) {
      place(ask, ask.instances.min);
    }
    // The ApplicationMaster requests optional tasks only after all required tasks have containers.
    if (counts.get(ask.role) === ask.instances.min) {
      place(ask, ask.instances.max - ask.instances.min);
    }
  }
  return counts;
}

/**
 * For each node label, returns how much the queue, its parent queues and the user may still use. Resource types that are missing from the
 * result are not limited.
 */
export function budgetsOf(queue: QueueRoom): Map<string, Room[]> {
  return new Map(
    Object.entries(queue.labels).map(([label, { levels, user }]) => {
      const bounds = [...levels, ...(user === null ? [] : [user])];
      return [label, bounds.flatMap(({ maximum, used }) => (maximum === null ? [] : [lessUsed(maximum, used)]))];
    }),
  );
}

/** Returns the resources that the user can still request in the queue, within all limits. */
export function freeInQueue(queue: QueueRoom): Room {
  const free: Record<string, number> = {};
  for (const left of budgetsOf(queue).get(queue.defaultLabel) ?? []) {
    for (const [resource, amount] of Object.entries(left)) {
      free[resource] = Math.max(0, Math.min(free[resource] ?? amount, amount));
    }
  }
  return free;
}

function lessUsed(maximum: Room, used: Room): Room {
  return Object.fromEntries(Object.entries(maximum).map(([resource, most]) => [resource, most - (used[resource] ?? 0)]));
}

/** Returns true if YARN may place requests with this label on the node. Requests without a label need a node without a label. */
export function isOf({ labels }: NodeRoom, label: string): boolean {
  return label === '' ? labels.every((each) => each === '') : labels.includes(label);
}

/** Returns true if `room` contains enough of every resource that the scheduler takes into account. */
export function holds(room: Room, resources: Room, counted: Counted): boolean {
  return asked(resources).every(([name, amount]) => !counted(name) || (room[name] ?? 0) >= amount);
}

/** Returns true if the resources are within the limit. A resource type that is missing from the limit is unlimited. */
export function allows(bound: Room, resources: Room, counted: Counted): boolean {
  return asked(resources).every(([name, amount]) => !counted(name) || bound[name] === undefined || bound[name] >= amount);
}

export function asked(resources: Room): [string, number][] {
  return Object.entries(resources).filter(([, amount]) => amount > 0);
}

export function times(resources: Room, factor: number): Room {
  return Object.fromEntries(Object.entries(resources).map(([name, amount]) => [name, amount * factor]));
}

function byTightness(one: Room, other: Room): number {
  return (one.gpus ?? 0) - (other.gpus ?? 0) || (one.memory ?? 0) - (other.memory ?? 0);
}

function bySize(a: PlannedAsk, b: PlannedAsk): number {
  return (b.resources.gpus ?? 0) - (a.resources.gpus ?? 0) || (b.resources.memory ?? 0) - (a.resources.memory ?? 0);
}
