import * as z from 'zod';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { FrozenJob } from '../job.ts';
import { principal } from '../job-values.ts';
import type { ProbeOrder } from '../node-probe.ts';
import { describeMistakes, resolvedJobSchema } from './resolved-job.ts';

const strings = z.record(z.string(), z.string());
const whole = z.int().nonnegative();

const resource = z.strictObject({
  name: z.string(),
  uri: z.string(),
  type: z.enum(['archive', 'file']),
  visibility: z.enum(['public', 'private', 'application']),
  size: whole,
  timestamp: whole,
});

const yarnCluster = z.strictObject({ kind: z.literal('yarn'), hadoop: strings, masterReplacementMs: whole.optional() });

const frozenJob: z.ZodType<FrozenJob> = z.strictObject({
  version: z.literal(1),
  jobId: z.string(),
  user: z.string(),
  submittedAt: whole,
  job: resolvedJobSchema,
  staging: z.string(),
  history: z.string(),
  historyShared: z.boolean(),
  historyUrl: z.string().nullable(),
  checkpointDir: z.string(),
  summaryDir: z.string(),
  outputDir: z.string(),
  data: strings,
  principal: principal.nullable(),
  resources: z.array(resource),
  roleResources: z.record(z.string(), z.array(resource)),
  fileSystems: z.array(z.string()),
  cacheEntries: z.array(z.string()),
  cluster: z.discriminatedUnion('kind', [yarnCluster, z.strictObject({ kind: z.literal('local'), directory: z.string() })]),
});

const probeOrder: z.ZodType<ProbeOrder> = z.strictObject({
  version: z.literal(1),
  jobId: z.string(),
  user: z.string(),
  staging: z.string(),
  submittedAt: z.number(),
  cacheEntries: z.array(z.string()),
  cluster: yarnCluster,
  resources: z.array(resource),
  nodes: z.array(z.strictObject({ node: z.string(), host: z.string(), rack: z.string(), label: z.string().nullable() })),
  timeoutMs: whole,
});

/**
 * Parses job.json. Applies all job.yaml validation rules, because users can edit job.json.
 * @throws TonyError JOB_INVALID with the first few mistakes.
 */
export function parseFrozenJob(text: string): FrozenJob {
  return parse(frozenJob, text);
}

/**
 * Parses the job.json of a probe.
 * @throws TonyError JOB_INVALID with the first few mistakes.
 */
export function parseProbeOrder(text: string): ProbeOrder {
  return parse(probeOrder, text);
}

function parse<T>(schema: z.ZodType<T>, text: string): T {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new TonyError('JOB_INVALID', `job.json is not valid JSON: ${messageOf(error)}.`, { cause: error });
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) {
    return parsed.data;
  }
  const mistakes = describeMistakes(parsed.error, 'job.json');
  throw new TonyError('JOB_INVALID', `job.json is not valid for this version of tony-ts: ${mistakes}.`, {
    hint: 'Submit the job with the version of tony-ts that built the bundles.',
  });
}
