import type { Quotas } from '../../../conf/quota-schema.ts';
import type { CapacityQueue } from '../../../hadoop/yarn/capacity-queues.ts';

export const PREFIX = 'yarn.scheduler.capacity.';

/** Notation for queue sizes. `mixed` requires Hadoop 3.4. With `mixed`, a maximum can limit only some of the resources. */
const QUEUE_MODES = ['absolute', 'mixed'] as const;
export type QueueMode = (typeof QUEUE_MODES)[number];

export interface SchedulerView {
  readonly quotas: Quotas;
  readonly root: CapacityQueue;
  readonly hadoopVersion: string;
  readonly queueMode: QueueMode;
  /** Nodes that provide fewer resources than usual, or none. An example is `host:port (LOST)`. */
  readonly missingNodes: readonly string[];
  readonly allowMissingNodes: boolean;
  /** Number of ApplicationMasters whose resources are added to a queue's total. */
  readonly masters: number;
  readonly groupsOf: (user: string) => readonly string[];
  /** Whether the ResourceManager enforces access lists, or null if unknown. */
  readonly aclsEnabled: boolean | null;
}

/** Returns `mixed` if Hadoop supports it. A file in mixed mode remains valid when the cluster grows or shrinks. */
export function usualQueueMode(hadoopVersion: string): QueueMode {
  return hasMixedMode(hadoopVersion) ? 'mixed' : 'absolute';
}

export function hasMixedMode(hadoopVersion: string): boolean {
  const [, major = '3', minor = '0'] = /^(\d+)\.(\d+)/.exec(hadoopVersion) ?? [];
  return Number(major) > 3 || Number(minor) >= 4;
}

export interface SchedulerProperty {
  readonly name: string;
  readonly value: string;
  /** Where the value comes from, such as a limit in the site file. Null for an unchanged property. */
  readonly why: string | null;
}

export class SchedulerDraft {
  readonly #properties = new Map<string, SchedulerProperty>();
  readonly #notices = new Set<string>();

  /** @param base current configuration, keyed by full property name. */
  constructor(base: ReadonlyMap<string, string>) {
    for (const [name, value] of base) {
      this.#properties.set(name, { name, value, why: null });
    }
  }

  get(name: string): string | undefined {
    return this.#properties.get(PREFIX + name)?.value;
  }

  /** @param name property name without the scheduler's prefix. */
  set(name: string, value: string, why: string): void {
    // A value that does not change keeps its origin.
    if (this.get(name) !== value) {
      this.#properties.set(PREFIX + name, { name: PREFIX + name, value, why });
    }
  }

  remove(name: string): void {
    this.#properties.delete(PREFIX + name);
  }

  /** Removes all properties whose names start with `name`. */
  removeBelow(name: string): void {
    for (const each of [...this.#properties.keys()]) {
      if (each.startsWith(PREFIX + name)) {
        this.#properties.delete(each);
      }
    }
  }

  notice(text: string): void {
    this.#notices.add(text);
  }

  get properties(): readonly SchedulerProperty[] {
    return [...this.#properties.values()];
  }

  get notices(): readonly string[] {
    return [...this.#notices];
  }
}

/** Returns the queue and all configured queues below it. Parent queues precede their children. */
export function staticQueues(queue: CapacityQueue): CapacityQueue[] {
  return queue.dynamic ? [] : [queue, ...queue.children.flatMap(staticQueues)];
}

/** Returns the queues that accept applications. */
export function leafQueues(root: CapacityQueue): CapacityQueue[] {
  return staticQueues(root).filter(({ children, makesQueues }) => children.length === 0 && !makesQueues);
}
