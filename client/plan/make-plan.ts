import { type Job, TENSORBOARD_ROLE } from '../../conf/job.ts';
import { formatMemory } from '../../conf/values/units.ts';
import type { Room } from '../../hadoop/yarn/queue-room.ts';
import { bringsTensorBoard, withTensorBoard } from '../job/tensorboard-role.ts';
import type { Part } from '../staging/staging.ts';
import type { JobPlan, PlannedContainers, PlannedUpload, Span } from './job-plan.ts';
import { type Ask, freeInQueue, masterAsk } from './placement.ts';
import { type ClusterRoom, fitOf, roundedUp } from './verdict.ts';

export type PlanParts = readonly Pick<Part<unknown>, 'name' | 'bytes' | 'missing'>[];

/** Plans a job on a cluster with the given resources. */
export function planOf(job: Job, room: ClusterRoom, parts: PlanParts, notes: readonly string[]): JobPlan {
  const asks = asksOf(job);
  const { verdict, fitNow } = fitOf(asks, room);
  const containers = asks.map((ask) => ({ ...ask, fitNow: fitNow?.get(ask.role) ?? null }));
  const plan = commonPlan(job, room.user, containers, parts);
  return { ...plan, where: 'yarn', headroom: headroomOf(room), verdict, notes: [...roundingNotes(asks, room), ...notes] };
}

/** Plans a local job. Its processes run on this machine without resource limits. */
export function localPlan(job: Job, user: string, parts: PlanParts, notes: readonly string[]): JobPlan {
  const containers = asksOf(job).map((ask) => ({ ...ask, fitNow: null }));
  return { ...commonPlan(job, user, containers, parts), where: 'local', headroom: null, verdict: { type: 'fits' }, notes };
}

function commonPlan(
  { name, queue }: Job,
  user: string,
  containers: readonly PlannedContainers[],
  parts: PlanParts,
): Pick<JobPlan, 'name' | 'user' | 'queue' | 'containers' | 'total' | 'uploads' | 'uploadBytes'> {
  const uploads = parts
    .filter(({ bytes }) => bytes > 0)
    .map(({ name: part, bytes, missing }): PlannedUpload => ({ name: part, bytes, missing }));
  const uploadBytes = uploads.reduce((sum, { missing }) => sum + missing, 0);
  return { name, user, queue, containers, total: totalOf(containers), uploads, uploadBytes };
}

/** Returns the container requests of the ApplicationMaster and of each role, including the TensorBoard role. */
export function asksOf(job: Job): Ask[] {
  const { memoryMb, vcores, nodeLabel } = job.master;
  return [
    masterAsk({ memory: memoryMb, vcores }, nodeLabel),
    ...withTensorBoard(job).roles.map((role): Ask => {
      const { memoryMb: memory, vcores: cores, gpus, other } = role.resources;
      const comesAlong = bringsTensorBoard(job) && role.name === TENSORBOARD_ROLE;
      return {
        role: role.name,
        instances: { least: role.instances, most: role.maxInstances },
        resources: { memory, vcores: cores, ...(gpus > 0 ? { gpus } : {}), ...other },
        nodeLabel: role.nodeLabel,
        optional: comesAlong,
        command: comesAlong ? null : role.command,
      };
    }),
  ];
}

function totalOf(containers: readonly PlannedContainers[]): JobPlan['total'] {
  const names = [...new Set(containers.flatMap(({ resources }) => Object.keys(resources)))];
  const sum = (amount: (each: PlannedContainers) => number): Span => ({
    least: containers.reduce((all, each) => all + each.instances.least * amount(each), 0),
    most: containers.reduce((all, each) => all + each.instances.most * amount(each), 0),
  });
  return {
    containers: sum(() => 1),
    resources: Object.fromEntries(names.map((name) => [name, sum(({ resources }) => resources[name] ?? 0)])),
  };
}

function roundingNotes(asks: readonly Ask[], { queue }: ClusterRoom): string[] {
  const rounded = asks.flatMap(({ role, resources }) => {
    const given = roundedUp(resources, queue).memory ?? 0;
    return given === resources.memory ? [] : [`${role} gets ${formatMemory(given)}`];
  });
  if (rounded.length === 0) {
    return [];
  }
  return [`The ResourceManager allocates memory in multiples of ${formatMemory(queue?.memoryStep ?? 1)}: ${rounded.join(', ')}.`];
}

function headroomOf({ queue }: ClusterRoom): JobPlan['headroom'] {
  const own = queue?.labels[queue.defaultLabel]?.levels[0];
  if (queue === null || own === undefined) {
    return null;
  }
  const maximum: Room = own.maximum ?? {};
  return { queue: queue.path, maximum, used: own.used, free: freeInQueue(queue) };
}
