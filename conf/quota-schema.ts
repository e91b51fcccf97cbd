import { z } from 'zod';
import { count, duration, memory, text } from './value-schemas.ts';

/** `quotas` of tony-site.yaml as admins write it. */

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
  task: amounts('of each task').describe('The most that each task may ask for.').optional(),
  job: amounts('of all tasks of one job together').describe('The most that one job may ask for.').optional(),
  total: amounts('of all running jobs together', { instances: count(0).describe('Tasks of all running jobs together.').optional() })
    .describe('The most that all running jobs may have together.')
    .optional(),
};

const ofJobs = {
  timeout: duration('How long a job may run; also the limit of those that set none.', { min: 1000 }).optional(),
  idle: duration('A job none of whose programs computes or reports anything for so long is ended.', { min: 10_000 }).optional(),
  nodeLabels: z.array(text()).describe('Node labels that jobs may ask for.').optional(),
};

const roleName = text();
const roleLimits = z.strictObject(limits);

const jobLimits = z.strictObject({
  ...limits,
  ...ofJobs,
  roles: z
    .record(roleName, roleLimits)
    .describe('Limits of roles by name within these jobs; "*" is each role that is not named.')
    .optional(),
});

export const quotaSchema = z
  .strictObject({
    over: z
      .enum(['wait', 'fail'])
      .describe('What becomes of a job for which too little of a total is left: it waits for other jobs to end, or fails at once.')
      .default('wait'),
    roles: z.record(roleName, roleLimits).describe('Limits of roles by name; "*" is each role that is not named.').default({}),
    users: z
      .record(text(), jobLimits.extend({ queues: z.array(text()).describe('YARN queues that the user may name.').optional() }))
      .describe('Limits of users by name; "*" is each user that is not named.')
      .default({}),
    groups: z
      .record(text(), jobLimits.extend({ queues: z.array(text()).describe('YARN queues that members may name.').optional() }))
      .describe("Limits of groups by name, as the NameNode knows users' groups; all members share a total.")
      .default({}),
    queues: z.record(text(), jobLimits).describe('Limits of YARN queues by name; "*" is each queue that is not named.').default({}),
  })
  .describe('How much jobs may ask for, and have.');

/** Amounts by the names of the site file: memory (MiB), vcores, gpus, instances, or a YARN resource type. */
export type Amounts = Readonly<Record<string, number | undefined>>;
export type RoleLimits = z.output<typeof roleLimits>;
export type JobLimits = z.output<typeof jobLimits> & { readonly queues?: readonly string[] | undefined };
export type Quotas = z.output<typeof quotaSchema>;
