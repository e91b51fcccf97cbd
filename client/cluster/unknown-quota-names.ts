import { amountPaths, type JobLimits, type Quotas } from '../../conf/quota-schema.ts';
import { amountsOf } from '../../hadoop/yarn/resource-amounts.ts';
import type { ResourceManager } from '../../hadoop/yarn/resource-manager.ts';
import { suggest } from '../../platform/text/suggest.ts';

/** A resource type or queue in the site file that the cluster does not have. Its limit has no effect. */
export interface UnknownName {
  /** Key in the site file, such as `quotas.users.*.job.yarn.io/fgpa`. */
  readonly path: string;
  readonly message: string;
}

export interface KnownNames {
  readonly resources: readonly string[];
  /** Queue names, without paths. */
  readonly queues: readonly string[];
}

/** Resource keys that are valid in every cluster. For example, `gpus` is valid even in a cluster without GPUs. */
const OWN_KEYS: ReadonlySet<string> = new Set(['memory', 'vcores', 'gpus', 'instances']);

export async function knownNames(resourceManager: Pick<ResourceManager, 'newApplication' | 'queues'>): Promise<KnownNames> {
  // This is the only response that lists the resource types with every scheduler. The application ID in it is not used.
  const [{ maximum }, queues] = await Promise.all([resourceManager.newApplication(), resourceManager.queues()]);
  return { resources: Object.keys(amountsOf(maximum)), queues: queues.flatMap(({ path }) => path.split('.')) };
}

/** Returns the resource types and queues in the site file that the cluster does not have. */
export function unknownNames(quotas: Quotas, known: KnownNames): UnknownName[] {
  const resources = amountPaths(quotas)
    .filter(({ resource }) => !OWN_KEYS.has(resource) && !known.resources.includes(resource))
    .map(({ path, resource }) => ({ path: ['quotas', ...path].join('.'), message: sentence('resource type', resource, known.resources) }));
  const queues = queuePaths(quotas)
    .filter(({ queue }) => !known.queues.includes(queue))
    .map(({ path, queue }) => ({ path, message: sentence('queue', queue, known.queues) }));
  return [...resources, ...queues];
}

export function unknownNameLines(unknown: readonly UnknownName[]): string[] {
  return unknown.map(({ path, message }) => `${path} has no effect: ${message}`);
}

function queuePaths(quotas: Quotas): { readonly path: string; readonly queue: string }[] {
  const own = Object.keys(quotas.queues).flatMap((queue) => (queue === '*' ? [] : [{ path: `quotas.queues.${queue}`, queue }]));
  const lists = (['users', 'groups'] as const).flatMap((kind) =>
    Object.entries<JobLimits>(quotas[kind]).flatMap(([name, { queues = [] }]) =>
      queues.map((queue, index) => ({ path: `quotas.${kind}.${name}.queues.${index}`, queue })),
    ),
  );
  return [...own, ...lists];
}

function sentence(what: string, name: string, known: readonly string[]): string {
  const meant = suggest(name, known);
  const advice = meant === undefined ? `it has ${[...new Set(known)].join(', ')}` : `did you mean ${meant}?`;
  return `the cluster has no ${what} ${name}; ${advice}`;
}
