import type { QueueRoom, Room } from '../hadoop/yarn/queue-room.ts';
import { sumOf } from '../platform/sum-of.ts';
import type { Job } from './job.ts';
import { describeAmount, taskOf } from './quotas.ts';
import { stagesOf } from './role-stages.ts';

/** Containers that a job needs at the same time. */
export interface NeededContainers {
  /** Null for the ApplicationMaster. */
  readonly role: string | null;
  readonly count: number;
  readonly resources: Room;
  /** Null for the label that the queue gives to requests without a label. */
  readonly nodeLabel: string | null;
}

/** A resource of which containers need more than a queue can ever provide. */
export interface Excess {
  /** The queue or the ancestor that sets the limit. */
  readonly path: string;
  readonly label: string;
  readonly resource: string;
  readonly most: number;
  readonly needed: number;
  /** The containers that need most of the resource. */
  readonly largest: NeededContainers;
}

/**
 * Returns the excesses over the maximum that the queue and its ancestors can provide while all other jobs are idle. Compares amounts after
 * YARN's rounding. Ignores resources that the scheduler does not count, and labels without active nodes.
 * @param onlyRoot considers only the limits of the whole cluster
 */
export function excessesOf(
  needed: readonly NeededContainers[],
  queue: QueueRoom,
  { counts, onlyRoot = false }: { readonly counts: (resource: string) => boolean; readonly onlyRoot?: boolean },
): Excess[] {
  return Object.entries(queue.labels).flatMap(([label, { levels }]) => {
    const own = needed.filter(({ nodeLabel }) => (nodeLabel ?? queue.defaultLabel) === label);
    const root = levels.at(-1);
    if (own.length === 0 || (root?.maximum?.memory ?? 0) === 0) {
      return [];
    }
    const amountOf = ({ count, resources }: NeededContainers, resource: string): number => count * amount(resources, resource, queue);
    const resources = Object.keys(sumOf(own.map((each) => each.resources))).filter(counts);
    return resources.flatMap((resource): Excess[] => {
      const sum = own.reduce((all, each) => all + amountOf(each, resource), 0);
      const level = levels.slice(onlyRoot ? -1 : 0).find(({ maximum }) => sum > (maximum?.[resource] ?? Number.POSITIVE_INFINITY));
      const [first, ...others] = own;
      if (level === undefined || first === undefined) {
        return [];
      }
      const largest = others.reduce((most, each) => (amountOf(each, resource) > amountOf(most, resource) ? each : most), first);
      const most = level.maximum?.[resource] ?? 0;
      return [{ path: level.path, label, resource, most, needed: sum, largest }];
    });
  });
}

/** Memory is a multiple of YARN's allocation step. */
function amount(resources: Room, resource: string, { memoryStep }: QueueRoom): number {
  const step = resource === 'memory' ? (memoryStep ?? 1) : 1;
  return Math.ceil((resources[resource] ?? 0) / step) * step;
}

/** Returns what a job needs at least, for each set of roles that may have containers at the same time. */
export function neededContainers(job: Pick<Job, 'roles' | 'master'>): NeededContainers[][] {
  const { resources, nodeLabel } = job.master;
  const master = { role: null, count: 1, resources: { memory: resources.memoryMb, vcores: resources.vcores }, nodeLabel };
  return stagesOf(job).map((stage) => [
    master,
    ...job.roles
      .filter(({ name, kind }) => stage.includes(name) && kind !== 'sidecar')
      .map((role) => ({ role: role.name, count: role.instances, resources: taskOf(role) as Room, nodeLabel: role.nodeLabel })),
  ]);
}

/** Describes an excess, and names the keys that the user can change. */
export function describeExcess({ path, label, resource, most, needed, largest }: Excess): string {
  const { role, count } = largest;
  const where = label === '' ? '' : ` on nodes labelled ${label}`;
  const key = role === null ? `master.resources.${resource}` : `roles.${role}.resources.${resource}`;
  const lower = role === null || count === 1 ? key : `roles.${role}.instances (${count}) or ${key}`;
  return (
    `The job requests ${describeAmount(resource, needed)} at the same time, including its ApplicationMaster, but queue ${path} can provide ` +
    `at most ${describeAmount(resource, most)}${where}. Lower ${lower}, or choose a larger queue.`
  );
}
