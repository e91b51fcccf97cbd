import * as z from 'zod';
import type { DeepReadonly } from '../../platform/deep-readonly.ts';
import { sumOf } from '../../platform/sum-of.ts';

/*
 * Schemas for the ResourceManager's responses. Depending on the endpoint, Jersey writes an empty list as null, {} or "". Jersey writes a
 * list with one element as the element itself. Responses omit values that the user has no permission to view.
 */

export const applicationStateSchema = z.enum(['NEW', 'NEW_SAVING', 'SUBMITTED', 'ACCEPTED', 'RUNNING', 'FINISHED', 'FAILED', 'KILLED']);
/** States of applications that have not finished. */
export const LIVE_STATES = ['NEW', 'NEW_SAVING', 'SUBMITTED', 'ACCEPTED', 'RUNNING'] as const satisfies readonly z.infer<
  typeof applicationStateSchema
>[];
export type ApplicationState = z.infer<typeof applicationStateSchema>;

/** Resource amounts, keyed by resource name: memory-mb, vcores, yarn.io/gpu, ... */
export const resourcesSchema = z
  .object({
    memory: z.number(),
    vCores: z.number(),
    resourceInformations: z.object({ resourceInformation: z.array(z.object({ name: z.string(), value: z.number() })) }).optional(),
  })
  .transform((resource): Readonly<Record<string, number>> => {
    const named = resource.resourceInformations?.resourceInformation ?? [];
    return { 'memory-mb': resource.memory, vcores: resource.vCores, ...Object.fromEntries(named.map(({ name, value }) => [name, value])) };
  });

const partitionUsageSchema = z.object({ used: resourcesSchema.optional(), amUsed: resourcesSchema.optional() });

export const applicationSchema = z
  .object({
    id: z.string(),
    name: z.string().default(''),
    user: z.string(),
    queue: z.string().default(''),
    applicationType: z.string().default(''),
    applicationTags: z.string().default(''),
    state: applicationStateSchema,
    finalStatus: z.string().default('UNDEFINED'),
    progress: z.number().default(0),
    trackingUrl: z.string().default(''),
    diagnostics: z.string().default(''),
    startedTime: z.number(),
    finishedTime: z.number().default(0),
    amContainerLogs: z.string().optional(),
    amHostHttpAddress: z.string().optional(),
    allocatedMB: z.number().default(-1),
    allocatedVCores: z.number().default(-1),
    runningContainers: z.number().default(-1),
    resourceInfo: z.object({ resourceUsagesByPartition: z.array(partitionUsageSchema).default([]) }).optional(),
    logAggregationStatus: z.string().optional(),
    appNodeLabelExpression: z.string().default(''),
    priority: z.number().default(0),
  })
  .transform((app) => ({
    id: app.id,
    name: app.name,
    user: app.user,
    queue: app.queue,
    type: app.applicationType,
    tags: app.applicationTags.split(',').filter((tag) => tag !== ''),
    state: app.state,
    /** Final status that the ApplicationMaster has reported, or UNDEFINED if it has not reported one yet. */
    finalStatus: app.finalStatus,
    /** Progress in percent. */
    progress: app.progress,
    trackingUrl: app.trackingUrl,
    diagnostics: app.diagnostics,
    /** Start time in ms since the epoch. */
    startedAt: app.startedTime,
    finishedAt: app.finishedTime > 0 ? app.finishedTime : null,
    /** URL of the current ApplicationMaster container's logs. `amNodeHttp` is the web address of the container's NodeManager. */
    amContainerLogs: app.amContainerLogs ?? null,
    amNodeHttp: app.amHostHttpAddress ?? null,
    // YARN reports -1 for an application that has finished.
    allocatedMb: Math.max(0, app.allocatedMB),
    allocatedVcores: Math.max(0, app.allocatedVCores),
    runningContainers: Math.max(0, app.runningContainers),
    /** Resources of all containers except the ApplicationMaster's, keyed by resource name. Visible to all cluster users. */
    used: usedOf(app.resourceInfo?.resourceUsagesByPartition ?? []),
    /** Resources of the ApplicationMaster's container, keyed by resource name. Visible to all cluster users. */
    usedByMaster: sumOf((app.resourceInfo?.resourceUsagesByPartition ?? []).map(({ amUsed = {} }) => amUsed)),
    /** Node label for containers that do not request one. Null for nodes without a label. */
    nodeLabel: labelOf(app.appNodeLabelExpression),
    /** Log aggregation state, e.g. NOT_START, RUNNING, SUCCEEDED, FAILED or DISABLED. */
    logAggregation: app.logAggregationStatus ?? null,
    priority: app.priority,
  }));
export type Application = DeepReadonly<z.output<typeof applicationSchema>>;

/** Returns a node label, or null for `<Not set>` and `<DEFAULT_PARTITION>`. Label names cannot contain `<`. */
function labelOf(expression: string): string | null {
  return expression === '' || expression.startsWith('<') ? null : expression;
}

function usedOf(partitions: readonly z.infer<typeof partitionUsageSchema>[]): Record<string, number> {
  const sum: Record<string, number> = {};
  for (const { used = {}, amUsed = {} } of partitions) {
    for (const [name, amount] of Object.entries(used)) {
      sum[name] = (sum[name] ?? 0) + amount - (amUsed[name] ?? 0);
    }
  }
  // Before the first container runs, `amUsed` can already include the ApplicationMaster's container while `used` does not.
  return Object.fromEntries(Object.entries(sum).map(([name, amount]) => [name, Math.max(0, amount)]));
}

export const attemptSchema = z
  .object({
    id: z.number(),
    appAttemptId: z.string(),
    appAttemptState: z.string().default(''),
    containerId: z.string().default(''),
    nodeId: z.string().default(''),
    nodeHttpAddress: z.string().default(''),
    diagnosticsInfo: z.string().default(''),
  })
  .transform((attempt) => ({
    number: attempt.id,
    attemptId: attempt.appAttemptId,
    state: attempt.appAttemptState,
    /** The ApplicationMaster container's ID, or null before YARN has allocated it. */
    containerId: attempt.containerId || null,
    /** The node's ID, or null before YARN has allocated the container. */
    node: attempt.nodeId || null,
    nodeHttp: hostAndPort(attempt.nodeHttpAddress),
    diagnostics: attempt.diagnosticsInfo,
  }));
export type Attempt = Readonly<z.output<typeof attemptSchema>>;

export const nodeSchema = z
  .object({
    id: z.string(),
    nodeHostName: z.string(),
    rack: z.string().default('/default-rack'),
    nodeHTTPAddress: z.string().default(''),
    state: z.string(),
    nodeLabels: z.array(z.string()).default([]),
    numContainers: z.number().default(0),
    totalResource: resourcesSchema.optional(),
    usedResource: resourcesSchema.optional(),
    usedMemoryMB: z.number().optional(),
    usedVirtualCores: z.number().optional(),
    availableResource: resourcesSchema.optional(),
    availMemoryMB: z.number().optional(),
    availableVirtualCores: z.number().optional(),
  })
  .transform((node) => {
    const used = node.usedResource ?? memoryAndVcores(node.usedMemoryMB, node.usedVirtualCores);
    const available = node.availableResource ?? memoryAndVcores(node.availMemoryMB, node.availableVirtualCores);
    return {
      /** The NodeManager's address (`host:port`). */
      id: node.id,
      host: node.nodeHostName,
      /** Network location, e.g. `/default-rack`. */
      rack: node.rack,
      /** The NodeManager's web address (`host:port`), or null if the node is lost. */
      nodeHttp: hostAndPort(node.nodeHTTPAddress),
      state: node.state,
      labels: node.nodeLabels,
      containers: node.numContainers,
      /** The node's total resources. A resource type is missing if its total is unknown. */
      total: node.totalResource ?? totalOf(used, available),
      available,
    };
  });
export type Node = Readonly<z.output<typeof nodeSchema>>;

function memoryAndVcores(memory: number | undefined, vcores: number | undefined): Readonly<Record<string, number>> {
  return memory === undefined || vcores === undefined ? {} : { 'memory-mb': memory, vcores };
}

/**
 * Returns used plus available resources, because Hadoop 3.2 and older do not report a total. For an inactive node, all quantities are 0 and
 * the total is unknown.
 */
function totalOf(used: Readonly<Record<string, number>>, available: Readonly<Record<string, number>>): Record<string, number> {
  const total = sumOf([used, available]);
  return total['memory-mb'] === 0 ? {} : total;
}

export const clusterInfoSchema = z.object({
  id: z.number(),
  startedOn: z.number(),
  state: z.string(),
  haState: z.string(),
  hadoopVersion: z.string(),
  resourceManagerVersion: z.string(),
});
export type ClusterInfo = z.infer<typeof clusterInfoSchema>;

export interface Queue {
  readonly name: string;
  /** Full path, e.g. `root.a.b`. */
  readonly path: string;
  readonly state: string;
  /** Capacity as a percentage of the cluster. */
  readonly capacity: number;
  readonly usedCapacity: number;
}

/** Returns the leaf queues of the Capacity Scheduler or Fair Scheduler. */
export function queuesOf(answer: unknown): Queue[] {
  return leaves(rootQueueOf(answer));
}

/** Returns the root queue, which the Fair Scheduler nests one level deeper than the Capacity Scheduler. */
export function rootQueueOf(answer: unknown): Readonly<Record<string, unknown>> {
  const info = record(record(record(answer).scheduler).schedulerInfo);
  return record(info.rootQueue).queueName === undefined ? info : record(info.rootQueue);
}

/** Returns the child queues. Supports both schedulers' formats. */
export function childQueuesOf(queue: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>>[] {
  return [...asList(record(queue.queues).queue), ...asList(record(queue.childQueues).queue)].map(record);
}

function leaves(queue: Readonly<Record<string, unknown>>): Queue[] {
  const below = childQueuesOf(queue);
  if (below.length > 0) {
    return below.flatMap(leaves);
  }
  const name = text(queue.queueName);
  return [
    {
      name: name.slice(name.lastIndexOf('.') + 1),
      path: text(queue.queuePath) || name,
      state: text(queue.state) || 'RUNNING',
      capacity: number(queue.absoluteCapacity),
      usedCapacity: number(queue.absoluteUsedCapacity),
    },
  ];
}

/** Parses `{ [key]: [...] }`, including the forms in which Jersey writes empty and one-element lists. */
export function listOf<T extends z.ZodType>(key: string, element: T) {
  return z.unknown().transform((value, context): z.infer<T>[] => {
    const parsed = z.array(element).safeParse(asList(record(value)[key]));
    if (parsed.success) {
      return parsed.data;
    }
    for (const issue of parsed.error.issues) {
      context.addIssue({ code: 'custom', message: issue.message, path: [key, ...issue.path] });
    }
    return z.NEVER;
  });
}

export function asList(value: unknown): unknown[] {
  if (value === undefined || value === null || value === '') {
    return [];
  }
  return Array.isArray(value) ? value : [value];
}

export function record(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

export function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function number(value: unknown): number {
  return typeof value === 'number' ? value : 0;
}

/**
 * Returns the `host:port` part of an address, which is a URL in some responses. Returns null for an empty address, which lost nodes have.
 */
function hostAndPort(address: string): string | null {
  return address.replace(/^https?:\/\//, '').split('/', 1)[0] || null;
}
