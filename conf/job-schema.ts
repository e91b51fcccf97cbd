import { z } from 'zod';
import type { Strategy } from './job.ts';
import {
  checkpointEvery,
  checkpointKeep,
  dataName,
  framework,
  GANG_TIMEOUT,
  gpuCount,
  HEARTBEAT_INTERVAL,
  JOB_TIMEOUT,
  jobName,
  MOST_RESTARTS,
  MOST_TAGS,
  masterVcoreCount,
  missedHeartbeats,
  restartPolicy,
  roleName,
  stepsOfStaleness,
  success,
  tag,
  taskCount,
  variableName,
  vcoreCount,
  wire,
} from './job-values.ts';
import { meantResource } from './values/resource-key.ts';
import { count, duration, memory, text } from './values/value-schemas.ts';

/** The schema of job.yaml as users write it. Each key has a description, which editors show and from which the reference is generated. */

/** A value that YAML reads as a number or boolean counts as text. */
const environmentValue = z
  .union([z.string(), z.number(), z.boolean()], { error: 'expected a text, number or boolean' })
  .transform((value) => String(value));
const environment = z.record(variableName, environmentValue);

const acl = z
  .strictObject({
    users: z.array(text()).describe('Names of users; * is everybody.').default([]),
    groups: z.array(text()).describe('Names of groups.').default([]),
  })
  .describe('Users and groups; "*" as a user is everybody.');

/** `mem: 4g` is a misspelled `memory`, not a resource type `mem`. */
const otherResource = count(0, undefined, ({ path }) => {
  const key = String(path?.at(-1));
  const meant = meantResource(key);
  return `${meant === undefined ? '' : `did you mean \`${meant}\`? `}YARN's resource type \`${key}\` needs a whole number`;
});

const resources = z
  .object({
    memory: memory('Memory of each container; at least 1g where YARN checks virtual memory.').default(2048),
    vcores: vcoreCount().describe('Virtual cores of each container.').default(1),
    gpus: gpuCount().describe('GPUs of each container (YARN resource type yarn.io/gpu).').default(0),
  })
  .catchall(otherResource.describe('Any other YARN resource type, by its name.'))
  .describe('What each container of the role gets.');

export const roleSchema = z.strictObject({
  instances: z
    .union(
      [
        taskCount(),
        z.strictObject({
          min: taskCount().describe('The job begins with so many, and waits when there are fewer.'),
          max: taskCount().describe('It takes up to so many when the cluster has room.'),
        }),
      ],
      { error: 'expected a number, or {min, max}' },
    )
    .transform((value) => (typeof value === 'number' ? { min: value, max: value } : value))
    .describe('How many tasks; {min, max} lets the job grow and shrink.')
    .default({ min: 1, max: 1 }),
  resources: resources.prefault({}),
  command: text().describe("Run by bash in a copy of the source folder; the job's command when absent.").optional(),
  env: environment.describe("Environment of the role's programs, over the job's.").default({}),
  nodeLabel: text().describe('Only nodes with this YARN node label.').optional(),
  restart: z
    .strictObject({
      policy: restartPolicy.describe('Whether a failed task is started again.').default('on-failure'),
      maxRestarts: count(0, MOST_RESTARTS).describe('How often each task may be, failures of the cluster not counted.').default(3),
    })
    .prefault({}),
  sidecar: z.boolean().describe('Neither waited for nor missed: its failure is only noted.').default(false),
  untracked: z.boolean().describe('Not waited for, but its failure fails the job (parameter servers).').default(false),
  chief: z.boolean().describe('Task 0 of this role is the chief. By default of the role chief, else worker, else the first.').optional(),
  ranked: z
    .boolean()
    .describe(
      'Its tasks have ranks (TONY_RANK, TONY_WORLD_SIZE), start together and restart together. By default true, except for roles named evaluator, ps or tensorboard, and for sidecar and untracked roles.',
    )
    .optional(),
});

export const tensorboardSchema = z.strictObject({
  logdir: text().describe('Folder of the summaries. By default a new one for each job.').optional(),
  memory: memory("Memory of TensorBoard's container.").default(1024),
});

/** Either the name alone, or a mapping with the name and options. */
const strategy = z
  .union(
    [
      z.enum(['all-reduce', 'parameter-server']),
      z.strictObject({
        type: z.literal('all-reduce'),
        wire: wire.describe('Type of the numbers that are sent; they are summed as float32.').default('float32'),
      }),
      z.strictObject({
        type: z.literal('parameter-server'),
        staleness: stepsOfStaleness().describe('Steps that a worker may be ahead of the slowest one; any number by default.').optional(),
      }),
    ],
    { error: 'expected all-reduce or parameter-server, or {type: all-reduce, wire} or {type: parameter-server, staleness}' },
  )
  .transform((value): Strategy => {
    const given = typeof value === 'string' ? { type: value } : value;
    return given.type === 'all-reduce'
      ? { type: 'all-reduce', wire: 'wire' in given ? given.wire : 'float32' }
      : { type: 'parameter-server', staleness: ('staleness' in given ? given.staleness : undefined) ?? null };
  });

export const jobSchema = z.strictObject({
  name: jobName.describe(
    'The name that YARN and the job page show: at most 200 letters, digits, spaces and . _ : @ + -, the first a letter, a digit or _.',
  ),
  queue: text().describe('YARN queue.').default('default'),
  source: z
    .union(
      [
        text(),
        z.strictObject({
          path: text().describe('Folder with your code, relative to this file.'),
          exclude: z.array(text()).describe('Patterns in .gitignore syntax, beside those of .tonyignore.').default([]),
        }),
      ],
      { error: 'expected a folder, {path, exclude}, or none' },
    )
    .transform((value) => (value === 'none' ? null : typeof value === 'string' ? { path: value, exclude: [] } : value))
    .describe(
      'Folder with your code, relative to this file; by default the folder of this file where a command names a file in it. none: no folder. What .tonyignore names is left out, and so are files with the names of secrets (.env, .npmrc, *.pem, id_rsa ...) unless a line such as !.env includes them.',
    )
    .optional(),
  framework: framework.describe('tfjs: TensorFlow.js is there. none: any program.').default('tfjs'),
  runtime: text()
    .describe(
      'default: the archive of `tony-ts runtime build`. gpu: that of `tony-ts runtime build --gpu`, which computes with CUDA. system: Node as installed on the nodes. Else the URI of such an archive.',
    )
    .default('default'),
  command: text().describe('Command of every role that has none of its own.').optional(),
  data: z
    .record(dataName, text())
    .describe('Input folders by name: paths are put on the cluster, hdfs:// URIs are used where they are.')
    .default({}),
  env: environment.describe("Environment of every role's programs.").default({}),
  roles: z.record(roleName, roleSchema).describe('The roles by name; earlier ones get their containers first.'),
  success: success
    .describe(
      'all: every tracked task must succeed. chief: the end of the chief decides, and a task that has used up its restarts is given up.',
    )
    .default('all'),
  gang: z
    .strictObject({
      timeout: duration('How long the containers of the gang may take to be there together.', GANG_TIMEOUT).default(300_000),
    })
    .prefault({}),
  heartbeat: z
    .strictObject({
      interval: duration('How often executors report.', HEARTBEAT_INTERVAL).default(1000),
      missed: missedHeartbeats().describe('A task is lost after so many intervals of silence.').default(10),
    })
    .prefault({}),
  checkpoint: z
    .strictObject({
      dir: text().describe('Folder of the checkpoints (hdfs:// or, in local mode, a path). By default a new one for each job.').optional(),
      every: checkpointEvery().describe('Steps between checkpoints.').default(100),
      keep: checkpointKeep().describe('How many of the newest are kept.').default(3),
    })
    .prefault({}),
  tensorboard: z
    .union([z.boolean(), tensorboardSchema], { error: 'expected true, false, or {logdir, memory}' })
    .transform((value) => (typeof value === 'boolean' ? { ...tensorboardSchema.parse({}), serve: value } : { ...value, serve: true }))
    .describe('A TensorBoard beside the job, behind its tracking URL. Training neither waits for it nor misses it.')
    .default({ memory: 1024, serve: false }),
  strategy: strategy
    .describe('all-reduce: each step averages the gradients of all workers. parameter-server: tasks of the role ps hold the weights.')
    .default({ type: 'all-reduce', wire: 'float32' }),
  timeout: duration('The whole job ends as FAILED after this.', JOB_TIMEOUT).optional(),
  acls: z.strictObject({ view: acl.prefault({}), modify: acl.prefault({}) }).prefault({}),
  master: z
    .strictObject({
      memory: memory("Memory of the ApplicationMaster's container.").default(1024),
      vcores: masterVcoreCount().describe("Virtual cores of the ApplicationMaster's container.").default(1),
      nodeLabel: text().describe('The ApplicationMaster runs on nodes with this YARN node label only.').optional(),
    })
    .prefault({}),
  tags: z
    .array(tag)
    .max(MOST_TAGS)
    .describe('YARN application tags. The ResourceManager takes ten by default, of which tony-ts needs two, or more for many roles.')
    .default([]),
});

export type JobFile = z.output<typeof jobSchema>;

/** job.yaml as users write it. */
export type JobInput = z.input<typeof jobSchema>;

/** JSON Schema (2020-12) of job.yaml, for editors. */
export function jobJsonSchema(): JsonSchema {
  return { title: 'tony-ts job', ...z.toJSONSchema(jobSchema, { io: 'input', unrepresentable: 'any' }) } as JsonSchema;
}

export interface JsonSchema {
  readonly title?: string;
  readonly type?: string;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly additionalProperties?: JsonSchema | boolean;
  readonly items?: JsonSchema;
  readonly anyOf?: readonly JsonSchema[];
  readonly enum?: readonly unknown[];
  readonly description?: string;
}
