import { gangRanks } from '../../conf/gang-ranks.ts';
import type { Job } from '../../conf/job.ts';
import { stagesOf } from '../../conf/role-stages.ts';
import { formatMemory } from '../../conf/values/units.ts';
import type { Room } from '../../hadoop/yarn/queue-room.ts';
import { withTensorBoard } from '../job/tensorboard-role.ts';
import type { Part } from '../staging/staging.ts';
import type { JobPlan, PlannedContainers, PlannedUpload, Span, Verdict } from './job-plan.ts';
import { freeInQueue, MASTER, masterAsk, type PlannedAsk } from './placement.ts';
import { type ClusterRoom, type Fit, fitOf, roundedUp } from './verdict.ts';

export type PlanParts = readonly Pick<Part<unknown>, 'name' | 'bytes' | 'missing'>[];

export function planOf(job: Job, room: ClusterRoom, parts: PlanParts, notes: readonly string[]): JobPlan {
  const asks = asksOf(job);
  const stages = stagesOf(withTensorBoard(job));
  const { verdict, fitNow } = fitOfStages(
    stages.map((stage) => asksIn(asks, stage)),
    room,
  );
  const containers = asks.map((ask) => ({ ...ask, fitNow: fitNow?.get(ask.role) ?? null }));
  const plan = commonPlan(job, room.user, containers, parts);
  return {
    ...plan,
    where: 'yarn',
    headroom: headroomOf(room),
    verdict,
    notes: [...stageNotes(asks, stages), ...roundingNotes(asks, room), ...notes],
  };
}

/** Plans a local job. The plan has no resource limits, because the job's processes run on this machine. */
export function localPlan(job: Job, user: string, parts: PlanParts, notes: readonly string[]): JobPlan {
  const containers = asksOf(job).map((ask) => ({ ...ask, fitNow: null }));
  return { ...commonPlan(job, user, containers, parts), where: 'local', headroom: null, verdict: { type: 'fits' }, notes };
}

function commonPlan(
  job: Job,
  user: string,
  containers: readonly PlannedContainers[],
  parts: PlanParts,
): Pick<JobPlan, 'name' | 'user' | 'queue' | 'containers' | 'total' | 'uploads' | 'uploadBytes'> {
  const { name, queue } = job;
  const stages = stagesOf(withTensorBoard(job)).map((stage) => asksIn(containers, stage));
  const uploads = parts
    .filter(({ bytes }) => bytes > 0)
    .map(({ name: part, bytes, missing }): PlannedUpload => ({ name: part, bytes, missing }));
  const uploadBytes = uploads.reduce((sum, { missing }) => sum + missing, 0);
  return { name, user, queue, containers, total: totalOf(stages), uploads, uploadBytes };
}

/** Returns the container requests for the ApplicationMaster and for all roles, including an added TensorBoard role. */
function asksOf(job: Job): PlannedAsk[] {
  const {
    resources: { memoryMb, vcores },
    nodeLabel,
  } = job.master;
  const ranks = gangRanks(job);
  return [
    masterAsk({ memory: memoryMb, vcores }, nodeLabel),
    ...withTensorBoard(job).roles.map((role): PlannedAsk => {
      const { memoryMb: memory, vcores: cores, gpus, other } = role.resources;
      return {
        role: role.name,
        instances: { min: role.instances, max: role.maxInstances },
        resources: { memory, vcores: cores, ...(gpus > 0 ? { gpus } : {}), ...other },
        nodeLabel: role.nodeLabel,
        optional: role.spare,
        ranks: ranks.get(role.name) ?? null,
        command: role.spare ? null : role.command,
      };
    }),
  ];
}

/** Returns the job's peak demand, which is the maximum over its stages. */
function totalOf(stages: readonly (readonly PlannedContainers[])[]): JobPlan['total'] {
  const names = [...new Set(stages.flat().flatMap(({ resources }) => Object.keys(resources)))];
  const most = (amount: (each: PlannedContainers) => number): Span => {
    const sum = (bound: keyof Span): number =>
      Math.max(...stages.map((stage) => stage.reduce((all, each) => all + each.instances[bound] * amount(each), 0)));
    return { min: sum('min'), max: sum('max') };
  };
  return {
    containers: most(() => 1),
    resources: Object.fromEntries(names.map((name) => [name, most(({ resources }) => resources[name] ?? 0)])),
  };
}

/** Returns the container requests for the ApplicationMaster and for the roles in a stage. */
function asksIn<T extends Pick<PlannedAsk, 'role'>>(asks: readonly T[], stage: readonly string[]): T[] {
  return asks.filter(({ role }) => role === MASTER || stage.includes(role));
}

const WORST_FIRST = ['impossible', 'rejected', 'waits', 'unknown', 'fits'] as const satisfies readonly Verdict['type'][];

/**
 * Combines the results for all stages. Returns the worst verdict with all its reasons, and, for each role, the smallest number of
 * containers that fit.
 */
function fitOfStages(stages: readonly (readonly PlannedAsk[])[], room: ClusterRoom): Fit {
  const fits = stages.map((asks) => fitOf(asks, room));
  const type = WORST_FIRST.find((each) => fits.some(({ verdict }) => verdict.type === each)) ?? 'unknown';
  const reasons = new Set(fits.flatMap(({ verdict }) => (verdict.type === type && 'reasons' in verdict ? verdict.reasons : [])));
  const verdict: Verdict = type === 'fits' || type === 'unknown' ? { type } : { type, reasons: [...reasons] };
  const fitNow = new Map<string, number>();
  for (const [role, count] of fits.flatMap((fit) => [...(fit.fitNow ?? [])])) {
    fitNow.set(role, Math.min(count, fitNow.get(role) ?? count));
  }
  return { verdict, fitNow: fits.some((fit) => fit.fitNow === null) ? null : fitNow };
}

function stageNotes(asks: readonly PlannedAsk[], stages: readonly (readonly string[])[]): string[] {
  if (stages.length === 1) {
    return [];
  }
  const count = asks.reduce((sum, { instances }) => sum + instances.max, 0);
  return [
    `Some roles run one after another. The row \`all\` shows the job's peak, which counts against quotas. In total, the job uses up to ${count} containers.`,
  ];
}

function roundingNotes(asks: readonly PlannedAsk[], { queue }: ClusterRoom): string[] {
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
