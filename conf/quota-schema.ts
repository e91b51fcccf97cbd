import { z } from 'zod';
import { resourceKeyProblem } from './values/resource-key.ts';
import { count, duration, memory, roleNameOrAll, text } from './values/value-schemas.ts';

/* The schema of `quotas` in tony-site.yaml, as admins write it. */

const amounts = (what: string, more: Record<string, z.ZodType> = {}) =>
  z
    .object({
      memory: memory(`Memory ${what}.`).optional(),
      vcores: count(0, 10_000_000).describe(`Virtual cores ${what}.`).optional(),
      gpus: count(0).describe(`GPUs ${what} (YARN resource type yarn.io/gpu).`).optional(),
      ...more,
    })
    .catchall(count(0).describe(`Any other YARN resource type ${what}, by its name.`));

const limits = {
  instances: count(0).describe('Tasks in one job.').optional(),
  task: amounts('of each task').describe('Maximum that each task may request.').optional(),
  job: amounts('of all tasks of one job together').describe('Maximum that one job may request.').optional(),
  total: amounts('of all running jobs together', { instances: count(0).describe('Tasks of all running jobs together.').optional() })
    .describe('Maximum that all running jobs together may hold.')
    .optional(),
};

const ofJobs = {
  timeout: duration('Maximum run time of a job; also the timeout of jobs that set none.', { min: 1000 }).optional(),
  idle: duration('Time after which an idle job ends: none of its programs computes or reports anything.', { min: 10_000 }).optional(),
  nodeLabels: z.array(text()).describe('Node labels that jobs may request.').optional(),
};

/** tony-ts looks up limits by the last part of a queue's path: a limit under a full path would have no effect. */
const queueName = text().regex(/^[^.]+$/, { error: 'is not a queue name: write the last part of its path' });
const groupName = text().refine((name) => name !== '*', {
  error: 'is not a group name: only roles, users and queues can have an entry *',
});
const roleLimits = z.strictObject(limits);

const jobLimits = z.strictObject({
  ...limits,
  ...ofJobs,
  roles: z
    .record(roleNameOrAll, roleLimits)
    .describe('Limits of roles by name within these jobs; "*" stands for every role that is not listed.')
    .optional(),
});

export const quotaSchema = z
  .strictObject({
    over: z
      .enum(['wait', 'fail'])
      .describe('What happens to a job that would exceed a total: it waits for other jobs to end, or fails immediately.')
      .default('wait'),
    roles: z
      .record(roleNameOrAll, roleLimits)
      .describe('Limits of roles by name; "*" stands for every role that is not listed.')
      .default({}),
    users: z
      .record(text(), jobLimits.extend({ queues: z.array(queueName).describe('YARN queues to which the user may submit.').optional() }))
      .describe('Limits of users by name; "*" stands for every user who is not listed.')
      .default({}),
    groups: z
      .record(groupName, jobLimits.extend({ queues: z.array(queueName).describe('YARN queues to which members may submit.').optional() }))
      .describe("Limits of groups by name. The NameNode resolves each user's groups. All members of a group share its total.")
      .default({}),
    queues: z
      .record(queueName, jobLimits)
      .describe('Limits of YARN queues by name; "*" stands for every queue that is not listed.')
      .default({}),
  })
  .describe('How much jobs may request and hold.');

/** Amounts by the names that the site file uses: memory (MiB), vcores, gpus, instances, or a YARN resource type. */
export type Amounts = Readonly<Record<string, number | undefined>>;
export type RoleLimits = z.output<typeof roleLimits>;
export type JobLimits = z.output<typeof jobLimits> & { readonly queues?: readonly string[] | undefined };
export type Quotas = z.output<typeof quotaSchema>;

/** Reports keys that cannot be resource types, with their paths in the site file: limits under such keys would have no effect. */
export function unknownAmounts(quotas: Quotas): { readonly path: readonly string[]; readonly message: string }[] {
  return amountPaths(quotas).flatMap(({ path, resource }) => {
    if (resource === 'instances' && path.at(-2) === 'total') {
      return [];
    }
    const message = resourceKeyProblem(resource);
    return message === undefined ? [] : [{ path: ['quotas', ...path], message }];
  });
}

/** Returns the path below `quotas` of every limit on an amount. */
export function amountPaths(quotas: Quotas): { readonly path: readonly string[]; readonly resource: string }[] {
  return (['roles', 'users', 'groups', 'queues'] as const).flatMap((kind) =>
    Object.entries<JobLimits>(quotas[kind]).flatMap(([name, limits]) => [
      ...amountsBelow([kind, name], limits),
      ...Object.entries(limits.roles ?? {}).flatMap(([role, ofRole]) => amountsBelow([kind, name, 'roles', role], ofRole)),
    ]),
  );
}

function amountsBelow(above: readonly string[], limits: RoleLimits): { readonly path: readonly string[]; readonly resource: string }[] {
  return (['task', 'job', 'total'] as const).flatMap((key) =>
    Object.keys(limits[key] ?? {}).map((resource) => ({ path: [...above, key, resource], resource })),
  );
}
