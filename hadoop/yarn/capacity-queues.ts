import * as z from 'zod';
import { listOf, resourcesSchema } from './resource-manager-answers.ts';

/*
 * The Capacity Scheduler's queue tree (GET /ws/v1/cluster/scheduler, Hadoop 3). It contains the settings of each queue, as far as the
 * response reports them, and the resulting amounts on the current cluster.
 */

/**
 * A queue's share of the nodes that have one label. Resource amounts are keyed by YARN's resource names: memory-mb, vcores, yarn.io/gpu,
 * ...
 */
export interface QueuePartition {
  /** Node label. Empty for nodes without a label. */
  readonly label: string;
  /** Capacity as a percentage of the parent queue's. */
  readonly capacity: number;
  readonly maximumCapacity: number;
  /** Weight, or -1 if the queue has none. */
  readonly weight: number;
  /** Guaranteed and maximum resources, given the current cluster size. */
  readonly minimum: Readonly<Record<string, number>>;
  readonly maximum: Readonly<Record<string, number>>;
}

export interface CapacityQueue {
  readonly name: string;
  /** Full path, e.g. `root.a.b`. */
  readonly path: string;
  /** True if YARN created the queue on first use. Such a queue is not part of the configuration. */
  readonly dynamic: boolean;
  /** True if YARN creates a child queue on its first use. */
  readonly makesQueues: boolean;
  /**
   * How the queue's capacity is configured. `differing` means a different capacity for each resource, or an unknown form. In that case, the
   * capacities in `partitions` are meaningless.
   */
  readonly mode: 'percentage' | 'absolute' | 'weight' | 'differing';
  readonly state: string;
  /** The queue's share of the nodes with each label. The first element is for nodes without a label. */
  readonly partitions: readonly QueuePartition[];
  /** Node labels to which the queue has access, or `*` for all labels. */
  readonly labels: readonly string[];
  readonly defaultLabel: string | null;
  /** ACLs of the form `USERS GROUPS`, where both lists are comma-separated. `*` allows all users, and a single space allows none. */
  readonly submitters: string;
  readonly administrators: string;
  readonly maximumAllocation: Readonly<Record<string, number>>;
  readonly minimumUserLimitPercent: number;
  readonly userLimitFactor: number;
  readonly maximumApplications: number | null;
  readonly maximumParallelApplications: number | null;
  readonly masterPercent: number | null;
  readonly priority: number;
  readonly ordering: string | null;
  /** Maximum application lifetime in seconds, or -1 for no limit. */
  readonly maximumLifetime: number;
  readonly defaultLifetime: number;
  readonly children: readonly CapacityQueue[];
}

const partitionSchema = z.object({
  partitionName: z.string().default(''),
  capacity: z.number(),
  maxCapacity: z.number(),
  weight: z.number().default(-1),
  effectiveMinResource: resourcesSchema,
  effectiveMaxResource: resourcesSchema,
  // Capacity of each resource, e.g. `40.0%`. Only Hadoop 3.4 and newer report it.
  queueCapacityVectorInfo: z
    .object({ capacityVectorEntries: z.array(z.object({ resourceValue: z.string() })) })
    .optional()
    .catch(undefined),
});

const UNLIMITED = 2 ** 31 - 1;

const queueSchema: z.ZodType<CapacityQueue> = z
  .object({
    queueName: z.string(),
    queuePath: z.string(),
    creationMethod: z.string().default('static'),
    autoCreateChildQueueEnabled: z.boolean().default(false),
    autoCreationEligibility: z.string().default('off'),
    // Hadoop 3.4 can also report `mixed` and `unknown`, which count as `differing`.
    mode: z.enum(['percentage', 'absolute', 'weight', 'differing']).default('percentage').catch('differing'),
    state: z.string().default('RUNNING'),
    capacities: z.object({ queueCapacitiesByPartition: z.array(partitionSchema).min(1) }),
    // Missing for the root queue, which has access to all labels, and for queues that have access to none.
    nodeLabels: z.array(z.string()).optional(),
    defaultNodeLabelExpression: z.string().optional(),
    queueAcls: z.object({ queueAcl: z.array(z.object({ accessType: z.string(), accessControlList: z.string() })) }),
    maximumAllocation: resourcesSchema,
    userLimit: z.number().default(100),
    userLimitFactor: z.number().default(1),
    maxApplications: z.number().optional(),
    maxParallelApps: z.number().optional(),
    configuredMaxAMResourceLimit: z.number().optional(),
    queuePriority: z.number().default(0),
    orderingPolicyInfo: z.string().optional(),
    maxApplicationLifetime: z.number().default(-1),
    defaultApplicationLifetime: z.number().default(-1),
    queues: z.lazy(() => listOf('queue', queueSchema)).optional(),
  })
  .transform((queue): CapacityQueue => {
    const acl = (type: string): string => queue.queueAcls.queueAcl.find(({ accessType }) => accessType === type)?.accessControlList ?? ' ';
    const partitions = queue.capacities.queueCapacitiesByPartition.map((partition) => ({
      label: partition.partitionName,
      capacity: partition.capacity,
      maximumCapacity: partition.maxCapacity,
      weight: partition.weight,
      minimum: partition.effectiveMinResource,
      maximum: partition.effectiveMaxResource,
    }));
    return {
      name: queue.queueName.slice(queue.queueName.lastIndexOf('.') + 1),
      path: queue.queuePath,
      dynamic: queue.creationMethod !== 'static',
      makesQueues: queue.autoCreateChildQueueEnabled || queue.autoCreationEligibility !== 'off',
      mode: queue.mode === 'percentage' && queue.capacities.queueCapacitiesByPartition.some(differsByResource) ? 'differing' : queue.mode,
      state: queue.state,
      partitions: partitions.sort((a, b) => (a.label < b.label ? -1 : 1)),
      labels: queue.queuePath === 'root' ? ['*'] : (queue.nodeLabels ?? []),
      defaultLabel: queue.defaultNodeLabelExpression ?? null,
      submitters: acl('SUBMIT_APP'),
      administrators: acl('ADMINISTER_QUEUE'),
      maximumAllocation: queue.maximumAllocation,
      minimumUserLimitPercent: queue.userLimit,
      userLimitFactor: queue.userLimitFactor,
      maximumApplications: queue.maxApplications ?? null,
      maximumParallelApplications: queue.maxParallelApps === UNLIMITED ? null : (queue.maxParallelApps ?? null),
      masterPercent: queue.configuredMaxAMResourceLimit ?? null,
      priority: queue.queuePriority,
      ordering: queue.orderingPolicyInfo ?? null,
      maximumLifetime: queue.maxApplicationLifetime,
      defaultLifetime: queue.defaultApplicationLifetime,
      children: queue.queues ?? [],
    };
  });

/**
 * Returns true if resources have different capacities, as in `[memory=40%,vcores=60%]`. For such a queue, YARN also reports the
 * `percentage` mode and a single `capacity`.
 */
function differsByResource({ queueCapacityVectorInfo }: z.infer<typeof partitionSchema>): boolean {
  return new Set(queueCapacityVectorInfo?.capacityVectorEntries.map(({ resourceValue }) => resourceValue)).size > 1;
}

export const capacitySchedulerSchema = z
  .object({ scheduler: z.object({ schedulerInfo: z.unknown() }) })
  .transform(({ scheduler: { schedulerInfo } }, context): CapacityQueue | null => {
    if (!z.object({ type: z.literal('capacityScheduler') }).safeParse(schedulerInfo).success) {
      return null;
    }
    const parsed = queueSchema.safeParse(schedulerInfo);
    if (parsed.success) {
      return parsed.data;
    }
    for (const issue of parsed.error.issues) {
      context.addIssue({ code: 'custom', message: issue.message, path: [...issue.path] });
    }
    return z.NEVER;
  });
