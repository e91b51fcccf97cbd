import * as z from 'zod';
import { ROLE_NAME } from '../values/role-name.ts';
import { API_KINDS, API_VERSION, type ApiKind } from './api-object.ts';
import { END_STATES, JOB_STATES, TASK_STATES } from './status.ts';

/*
 * Describes the JSON objects that commands print and that the HTTP API answers. docs/api.schema.json is generated from this file. Objects
 * that few programs read are described only by their `apiVersion` and `kind`.
 */

const time = z.iso.datetime().describe('RFC 3339, in UTC');
const count = z.int().nonnegative();
const metrics = z.record(z.string(), z.number());
const role = z.string().regex(ROLE_NAME);
const failure = z.looseObject({ cause: z.looseObject({ kind: z.string() }), cost: z.enum(['charged', 'free', 'victim']) });

const task = z.strictObject({
  role,
  index: count,
  state: z.enum(TASK_STATES),
  rank: count.nullable(),
  generation: count,
  attempts: count,
  programStarts: count,
  failures: count,
  containerId: z.string().nullable(),
  node: z.string().nullable(),
  nodeHttp: z.string().nullable(),
  step: z.number(),
  metrics,
  usage: z
    .strictObject({
      memoryBytes: z.number(),
      cpuCores: z.number(),
      gpus: z.array(z.strictObject({ index: count, utilization: z.number(), memoryUsedBytes: z.number(), memoryTotalBytes: z.number() })),
      stopped: z.boolean(),
    })
    .nullable(),
  silentMs: z.number().nullable(),
  exit: z.looseObject({ code: z.int().nullable(), signal: z.string().nullable() }).nullable(),
  failure: failure.nullable(),
  waitsFor: z.array(z.strictObject({ role, state: z.enum(['running', 'succeeded']) })).optional(),
});

const job = {
  id: z.string().regex(/^(application|local)_\d+_\d{4,}$/),
  name: z.string(),
  user: z.string(),
  queue: z.string(),
  state: z.enum(JOB_STATES),
  message: z.string(),
  waitingMs: z.number().nullable(),
  predecessorsEndInMs: z.number().nullable(),
  failedTask: z.strictObject({ role, index: count }).nullable(),
  masterAttempt: count,
  generations: count,
  createdAt: time.nullable(),
  startedAt: time.nullable(),
  finishedAt: time.nullable(),
  step: z.number(),
  progress: z.number().min(0).max(1).nullable(),
  metrics,
  checkpointStep: count,
  checkpointUri: z.string(),
  summaryUri: z.string(),
  notices: z.array(z.string()),
  failure: failure.extend({ role, index: count }).nullable(),
  tensorboard: z.strictObject({ state: z.enum(['off', 'waiting', 'starting', 'ready', 'unavailable']), message: z.string() }),
  elastic: z.strictObject({ role, running: count, min: count, max: count }).nullable(),
  master: z.strictObject({ node: z.string(), memoryBytes: z.number(), cpuCores: z.number(), latenessMs: z.number() }).nullable(),
  tasksRunning: count.nullable(),
  tasksTotal: count.nullable(),
  orphanedContainers: z.array(
    z.strictObject({
      role,
      index: count.nullable(),
      containerId: z.string(),
      node: z.string(),
      attached: z.boolean(),
      mayRunForMs: z.number(),
    }),
  ),
  masterSilentMs: z.number().nullable(),
  urls: z.strictObject({ pages: z.string().nullable(), tracking: z.string().nullable() }),
  yarn: z.looseObject({ applicationId: z.string(), state: z.string(), finalStatus: z.string() }).nullable(),
  tasks: z.array(task).optional().describe('Absent in lists'),
};

const event = {
  type: z.string(),
  at: time.optional(),
  id: job.id.optional(),
  state: z.enum([...JOB_STATES, ...TASK_STATES, ...END_STATES]).optional(),
  message: z.string().optional(),
};

/** Fields of the kinds that are described in full. */
const FIELDS = {
  Job: z.strictObject(head('Job', job)),
  JobDescription: z.looseObject(head('JobDescription', { ...job, tasks: z.array(z.looseObject(task.shape)) })),
  JobHistory: z.looseObject(head('JobHistory', job)),
  JobEvent: z.looseObject(head('JobEvent', event)),
  JobList: z.looseObject(head('JobList', { jobs: z.array(z.strictObject(job)), message: z.string() })),
  Error: z.looseObject(head('Error', { code: z.string(), message: z.string(), hint: z.string() })),
  Notice: z.strictObject(head('Notice', { message: z.string() })),
  LogLine: z.strictObject(head('LogLine', { task: z.string(), containerId: z.string(), file: z.string(), text: z.string() })),
  Check: z.strictObject(
    head('Check', { name: z.string(), state: z.enum(['ok', 'warning', 'error', 'skipped']), message: z.string(), hint: z.string() }),
  ),
  Kill: z.looseObject(head('Kill', { killed: z.boolean(), id: job.id, state: job.state })),
} as const satisfies Partial<Record<ApiKind, z.ZodType>>;

function head<Kind extends ApiKind, Fields extends object>(kind: Kind, fields: Fields) {
  return { apiVersion: z.literal(API_VERSION), kind: z.literal(kind), ...fields };
}

const others = API_KINDS.filter((kind) => !(kind in FIELDS)).map((kind) => z.looseObject(head(kind, {})));

/** Any object that a command prints or that the HTTP API answers. */
export const apiSchema = z.union([...Object.values(FIELDS), ...others]);

export function apiJsonSchema(): object {
  return {
    ...z.toJSONSchema(apiSchema, { io: 'input', reused: 'ref' }),
    title: 'JSON output of tony-ts',
    description: 'Objects that tony-ts commands print with --output json, and that the pages of jobs are built from.',
  };
}
