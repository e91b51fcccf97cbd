import * as z from 'zod';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { FrozenJob } from '../job.ts';
import { principal } from '../job-values.ts';
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

const frozenJob = z.strictObject({
  version: z.literal(1),
  applicationId: z.string(),
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
  cluster: z.discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('yarn'), hadoop: strings, masterReplacementMs: whole.optional() }),
    z.strictObject({ kind: z.literal('local'), directory: z.string() }),
  ]),
});

/**
 * Parses job.json. Applies all job.yaml validation rules, because users can edit job.json.
 * @throws TonyError JOB_INVALID with the first few mistakes.
 */
export function parseFrozenJob(text: string): FrozenJob {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new TonyError('JOB_INVALID', `job.json is not valid JSON: ${messageOf(error)}.`, { cause: error });
  }
  const parsed = frozenJob.safeParse(value);
  if (parsed.success) {
    return parsed.data;
  }
  const mistakes = describeMistakes(parsed.error, 'job.json');
  throw new TonyError('JOB_INVALID', `job.json is not valid for this version of tony-ts: ${mistakes}.`, {
    hint: 'Submit the job with the version of tony-ts that built the bundles.',
  });
}
