import { z } from 'zod';
import { messageOf, TonyError } from './errors.ts';
import type { FrozenJob } from './job.ts';

const strings = z.record(z.string(), z.string());
const acl = z.object({ users: z.array(z.string()), groups: z.array(z.string()) });
const whole = z.int().nonnegative();

const role = z
  .object({
    name: z.string(),
    instances: whole,
    maxInstances: whole,
    resources: z.object({ memoryMb: whole, vcores: whole, gpus: whole, other: z.record(z.string(), whole) }),
    command: z.string(),
    env: strings,
    nodeLabel: z.string().nullable(),
    restart: z.object({ policy: z.enum(['never', 'on-failure']), maxRestarts: whole }),
    tracking: z.enum(['tracked', 'untracked', 'sidecar']),
    chief: z.boolean(),
    ranked: z.boolean(),
    servesParameters: z.boolean(),
  })
  .refine(({ instances, maxInstances }) => maxInstances >= instances, { path: ['maxInstances'], error: 'is less than instances' })
  .refine(({ instances, maxInstances, ranked }) => maxInstances === instances || ranked, {
    path: ['maxInstances'],
    error: 'only a ranked role may grow',
  });

const job = z.object({
  name: z.string(),
  queue: z.string(),
  source: z.object({ path: z.string(), exclude: z.array(z.string()) }).nullable(),
  framework: z.enum(['tfjs', 'none']),
  runtime: z.string(),
  data: strings,
  env: strings,
  roles: z
    .array(role)
    .min(1)
    .refine((roles) => roles.filter(({ instances, maxInstances }) => maxInstances > instances).length <= 1, {
      error: 'only one role may grow',
    }),
  success: z.enum(['all', 'chief']),
  gang: z.object({ timeoutMs: whole }),
  heartbeat: z.object({ intervalMs: whole, missed: whole }),
  checkpoint: z.object({ dir: z.string().nullable(), everySteps: whole, keep: whole }),
  tensorboard: z.object({ logdir: z.string().nullable(), serve: z.boolean(), memoryMb: whole }),
  strategy: z.discriminatedUnion('type', [
    z.object({ type: z.literal('all-reduce'), wire: z.enum(['float32', 'float16']) }),
    z.object({ type: z.literal('parameter-server'), staleness: whole.nullable() }),
  ]),
  timeoutMs: whole.nullable(),
  acls: z.object({ view: acl, modify: acl }),
  master: z.object({ memoryMb: whole, vcores: whole, nodeLabel: z.string().nullable() }),
  tags: z.array(z.string()),
});

const resource = z.object({
  name: z.string(),
  uri: z.string(),
  type: z.enum(['archive', 'file']),
  visibility: z.enum(['public', 'private', 'application']),
  size: whole,
  timestamp: whole,
});

const frozenJob = z.object({
  version: z.literal(1),
  applicationId: z.string(),
  user: z.string(),
  submittedAt: whole,
  job,
  staging: z.string(),
  history: z.string(),
  historyShared: z.boolean(),
  historyUrl: z.string().nullable(),
  checkpointDir: z.string(),
  summaryDir: z.string(),
  outputDir: z.string(),
  data: strings,
  resources: z.array(resource),
  roleResources: z.record(z.string(), z.array(resource)),
  cluster: z.discriminatedUnion('kind', [
    z.object({ kind: z.literal('yarn'), hadoop: strings }),
    z.object({ kind: z.literal('local'), directory: z.string() }),
  ]),
});

/**
 * Reads job.json. It comes from a file that a user may have written by hand, so it is checked like any other input.
 * @throws TonyError JOB_INVALID with the first few mistakes.
 */
export function parseFrozenJob(text: string): FrozenJob {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new TonyError('JOB_INVALID', `job.json is no JSON: ${messageOf(error)}.`, { cause: error });
  }
  const parsed = frozenJob.safeParse(value);
  if (parsed.success) return parsed.data;
  const mistakes = parsed.error.issues.slice(0, 5).map((issue) => `${issue.path.join('.') || 'job.json'}: ${issue.message}`);
  throw new TonyError('JOB_INVALID', `job.json is not what this version of tony-ts writes: ${mistakes.join('; ')}.`, {
    hint: 'Submit with the tony-ts that the bundles come from.',
  });
}
