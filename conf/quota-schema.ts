import * as z from 'zod';
import { resourceKeyProblem } from './values/resource-key.ts';
import { count, duration, memory, roleNameOrAll, text } from './values/value-schemas.ts';
import type { YamlPath } from './yaml-document.ts';

const amounts = (what: string, more: Record<string, z.ZodType> = {}) =>
  z
    .object({
      memory: memory(`Memory ${what}.`).optional(),
      vcores: count(0, 10_000_000).describe(`Virtual cores ${what}.`).optional(),
      gpus: count(0).describe(`GPUs ${what} (YARN resource type yarn.io/gpu).`).optional(),
      ...more,
    })
    .catchall(count(0).describe(`Amount of any other YARN resource type ${what}. The key is YARN's name for the resource type.`));

const limits = {
  instances: count(0).describe('Maximum number of tasks in one job.').optional(),
  task: amounts('for each task').describe('Maximum that each task may request.').optional(),
  job: amounts('for all tasks of one job combined').describe('Maximum that one job may request.').optional(),
  total: amounts('for all running jobs combined', {
    instances: count(0).describe('Maximum number of tasks in all running jobs combined.').optional(),
  })
    .describe('Maximum resources of all running jobs combined.')
    .optional(),
};

const ofJobs = {
  timeout: duration('Maximum run time of a job, and the timeout for jobs that do not set one.', { min: 1000 }).optional(),
  idle: duration('How long a job may be idle before tony-ts ends it. A job is idle if none of its programs computes or reports anything.', {
    min: 10_000,
  }).optional(),
  nodeLabels: z.array(text()).describe('Node labels that jobs may request.').optional(),
};

/** Rejects full queue paths, because limits are looked up by the last component of the path. */
const queueName = text().regex(/^[^.]+$/, { error: 'is not a queue name: write the last part of its path' });
const groupName = text()
  .refine((name) => name !== '*', { error: 'is not a group name: only roles, users and queues can have an entry *', abort: true })
  .regex(/^(?!\s)[^*,:;]*[^\s*,:;]$/, { error: 'is not a group name: write one name' });
/**
 * Limits are looked up by the short names of users, as in YARN's web pages. An entry for a Kerberos principal, or for several names, would
 * have no effect. A machine account ends with `$`.
 */
const userName = text().regex(/^(\*|[^\s@/*,:;]([^@/*,:;]*[^\s@/*,:;])?)$/, {
  error: ({ input }) => {
    const short = /^([^\s@/*,:;]+)[@/]/.exec(String(input))?.[1];
    return `is not a user name${short === undefined ? ': write one name, or * for all other users' : `: write the short name, ${short}`}`;
  },
});
const roleLimits = z.strictObject(limits);

const jobLimits = z.strictObject({
  ...limits,
  ...ofJobs,
  roles: z
    .record(roleNameOrAll, roleLimits)
    .describe('Limits for the roles of these jobs, by role name. "*" applies to all roles without an entry.')
    .optional(),
});

export const quotaSchema = z
  .strictObject({
    over: z
      .enum(['wait', 'fail'])
      .describe('What a job does if it would exceed a total. wait: it waits for other jobs to end. fail: it fails immediately.')
      .default('wait'),
    roles: z
      .record(roleNameOrAll, roleLimits)
      .describe('Limits for roles, by role name. "*" applies to all roles without an entry.')
      .default({}),
    users: z
      .record(userName, jobLimits.extend({ queues: z.array(queueName).describe('YARN queues to which the user may submit.').optional() }))
      .describe('Limits for users, by user name. "*" applies to all users without an entry.')
      .default({}),
    groups: z
      .record(groupName, jobLimits.extend({ queues: z.array(queueName).describe('YARN queues to which members may submit.').optional() }))
      .describe("Limits for groups, by group name. The NameNode resolves each user's groups. All members of a group share its total.")
      .default({}),
    queues: z
      .record(queueName, jobLimits)
      .describe('Limits for YARN queues, by queue name. "*" applies to all queues without an entry.')
      .default({}),
  })
  .describe('Limits on the resources that jobs may request and hold.');

/**
 * Resource amounts in the site file, keyed by resource name. The names are memory (in MiB), vcores, gpus, instances, and YARN resource
 * types.
 */
export type Amounts = Readonly<Record<string, number | undefined>>;
export type RoleLimits = z.output<typeof roleLimits>;
export type JobLimits = z.output<typeof jobLimits> & { readonly queues?: readonly string[] | undefined };
export type Quotas = z.output<typeof quotaSchema>;

/**
 * Returns the mistake in a key below `quotas` that cannot be the name of a resource type. A limit under such a key would have no effect.
 * Returns undefined for all other keys.
 */
export function limitProblemAt(path: YamlPath): string | undefined {
  const [, , ...own] = path;
  const [amounts, resource, ...rest] = own[0] === 'roles' ? own.slice(2) : own;
  if (!isAmounts(amounts) || resource === undefined || rest.length > 0 || (resource === 'instances' && amounts === 'total')) {
    return undefined;
  }
  return resourceKeyProblem(String(resource));
}

/** Returns the path of every resource limit, relative to `quotas`. */
export function amountPaths(quotas: Quotas): { readonly path: readonly string[]; readonly resource: string }[] {
  return (['roles', 'users', 'groups', 'queues'] as const).flatMap((kind) =>
    Object.entries<JobLimits>(quotas[kind]).flatMap(([name, limits]) => [
      ...amountsBelow([kind, name], limits),
      ...Object.entries(limits.roles ?? {}).flatMap(([role, ofRole]) => amountsBelow([kind, name, 'roles', role], ofRole)),
    ]),
  );
}

const AMOUNTS = ['task', 'job', 'total'] as const;

function isAmounts(key: unknown): boolean {
  return AMOUNTS.some((amounts) => amounts === key);
}

function amountsBelow(above: readonly string[], limits: RoleLimits): { readonly path: readonly string[]; readonly resource: string }[] {
  return AMOUNTS.flatMap((key) => Object.keys(limits[key] ?? {}).map((resource) => ({ path: [...above, key, resource], resource })));
}
