import type { Quotas } from '../../conf/quota-schema.ts';
import type { CapacityQueue } from '../../hadoop/capacity-queues.ts';

export const PREFIX = 'yarn.scheduler.capacity.';

/** How queues' sizes are written. `mixed` takes Hadoop 3.4, and lets one resource be limited while others stay as they are. */
export const QUEUE_MODES = ['absolute', 'mixed'] as const;
export type QueueMode = (typeof QUEUE_MODES)[number];

/** What the configuration is made of. */
export interface SchedulerView {
  readonly quotas: Quotas;
  readonly root: CapacityQueue;
  /** Of the ResourceManager, e.g. `3.4.1`. */
  readonly hadoopVersion: string;
  readonly queueMode: QueueMode;
  /** For so many ApplicationMasters there shall be room in a queue beside its total of tasks. */
  readonly masters: number;
  /** Of every user whom the site file lists. */
  readonly groupsOf: (user: string) => readonly string[];
  /** Whether the ResourceManager looks at access lists at all; null: nobody says. */
  readonly aclsEnabled: boolean | null;
}

export interface SchedulerProperty {
  readonly name: string;
  readonly value: string;
  /** The limits of the site file that say so; null: it was so before. */
  readonly why: string | null;
}

/** The configuration while it is being made, and what has to be told of it. */
export class SchedulerDraft {
  readonly #properties = new Map<string, SchedulerProperty>();
  readonly #notices = new Set<string>();

  /** @param base properties by their whole names. */
  constructor(base: ReadonlyMap<string, string>) {
    for (const [name, value] of base) this.#properties.set(name, { name, value, why: null });
  }

  get(name: string): string | undefined {
    return this.#properties.get(PREFIX + name)?.value;
  }

  /** @param name without the scheduler's prefix. */
  set(name: string, value: string, why: string): void {
    // What says the same as before has not come from the site file.
    if (this.get(name) !== value) this.#properties.set(PREFIX + name, { name: PREFIX + name, value, why });
  }

  remove(name: string): void {
    this.#properties.delete(PREFIX + name);
  }

  /** Removes every property that begins so. */
  removeBelow(name: string): void {
    for (const each of [...this.#properties.keys()]) if (each.startsWith(PREFIX + name)) this.#properties.delete(each);
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

/** The queue and all below it that stand in the configuration, each after the one above it. */
export function staticQueues(queue: CapacityQueue): CapacityQueue[] {
  return queue.dynamic ? [] : [queue, ...queue.children.flatMap(staticQueues)];
}

/** Those to which one submits. */
export function leafQueues(root: CapacityQueue): CapacityQueue[] {
  return staticQueues(root).filter(({ children, makesQueues }) => children.length === 0 && !makesQueues);
}
