import { z } from 'zod';
import type { Strategy } from './job.ts';
import { meantResource } from './resource-key.ts';
import { ROLE_NAME } from './role-name.ts';
import { isRoleTag } from './role-tags.ts';
import { count, duration, memory, text } from './value-schemas.ts';

/** job.yaml as people write it. Every key has its meaning beside it: editors show it, and the reference is made from it. */

/** A value that YAML may read as a number or boolean is meant as text. */
const environmentValue = z
  .union([z.string(), z.number(), z.boolean()], { error: 'expected a text, number or boolean' })
  .transform((value) => String(value));
const environment = z.record(
  z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, { error: 'is no name of an environment variable' }),
  environmentValue,
);

const acl = z
  .strictObject({
    users: z.array(text()).describe('Names of users; * is everybody.').default([]),
    groups: z.array(text()).describe('Names of groups.').default([]),
  })
  .describe('Users and groups; "*" as a user is everybody.');

/** `mem: 4g` is no number of a type that nobody has, but memory. */
const otherResource = count(0, undefined, ({ path }) => {
  const key = String(path?.at(-1));
  const meant = meantResource(key);
  return `${meant === undefined ? '' : `did you mean \`${meant}\`? `}YARN's resource type \`${key}\` needs a whole number`;
});

const resources = z
  .object({
    memory: memory('Memory of each container; at least 1g where YARN checks virtual memory.').default(2048),
    vcores: count(1, 4096).describe('Virtual cores of each container.').default(1),
    gpus: count(0, 1024).describe('GPUs of each container (YARN resource type yarn.io/gpu).').default(0),
  })
  .catchall(otherResource.describe('Any other YARN resource type, by its name.'))
  .describe('What each container of the role gets.');

export const roleSchema = z.strictObject({
  instances: z
    .union(
      [
        count(1, 100_000),
        z.strictObject({
          min: count(1, 100_000).describe('The job begins with so many, and waits when there are fewer.'),
          max: count(1, 100_000).describe('It takes up to so many when the cluster has room.'),
        }),
      ],
      { error: 'expected a number, or {min, max}' },
    )
    .transform((value) => (typeof value === 'number' ? { min: value, max: value } : value))
    .describe('How many tasks; {min, max} lets the job grow and shrink.')
    .default({ min: 1, max: 1 }),
  resources: resources.prefault({}),
  command: text().describe("Run by bash in the source folder; the job's command when absent.").optional(),
  env: environment.describe("Environment of the role's programs, over the job's.").default({}),
  nodeLabel: text().describe('Only nodes with this YARN node label.').optional(),
  restart: z
    .strictObject({
      policy: z.enum(['on-failure', 'never']).describe('Whether a failed task is started again.').default('on-failure'),
      maxRestarts: count(0, 10_000).describe('How often each task may be, failures of the cluster not counted.').default(3),
    })
    .prefault({}),
  sidecar: z.boolean().describe('Neither waited for nor missed: its failure is only noted.').default(false),
  untracked: z.boolean().describe('Not waited for, but its failure fails the job (parameter servers).').default(false),
  chief: z.boolean().describe('Task 0 of this role is the chief. By default of the role chief, else worker, else the first.').optional(),
  ranked: z.boolean().describe('Its tasks take part in all-reduce. By default true, but for evaluator, ps and tensorboard.').optional(),
});

export const tensorboardSchema = z.strictObject({
  logdir: text().describe('Folder of the summaries. By default a new one for each job.').optional(),
  memory: memory("Memory of TensorBoard's container.").default(1024),
});

/** Either the name alone, or the name with what can be set. */
const strategy = z
  .union(
    [
      z.enum(['all-reduce', 'parameter-server']),
      z.strictObject({
        type: z.literal('all-reduce'),
        wire: z.enum(['float32', 'float16']).describe('Type of the numbers that are sent; they are summed as float32.').default('float32'),
      }),
      z.strictObject({
        type: z.literal('parameter-server'),
        staleness: count(0, 1_000_000).describe('Steps that a worker may be ahead of the slowest one; any number by default.').optional(),
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
  name: text()
    .max(200)
    .regex(/^[\w][\w .:@+-]*$/, { error: 'may hold letters, digits, spaces and . _ : @ + - only, and starts with a letter or digit' })
    .describe('The name that YARN and the job page show.'),
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
      { error: 'expected a folder, or {path, exclude}' },
    )
    .transform((value) => (typeof value === 'string' ? { path: value, exclude: [] } : value))
    .describe('Folder with your code, relative to this file; what .tonyignore names stays behind.')
    .optional(),
  framework: z.enum(['tfjs', 'none']).describe('tfjs: TensorFlow.js is there. none: any program.').default('tfjs'),
  runtime: text()
    .describe(
      'default: the archive of `tony-ts runtime build`. gpu: that of `tony-ts runtime build --gpu`, which computes with CUDA. system: Node as installed on the nodes. Else the URI of such an archive.',
    )
    .default('default'),
  command: text().describe('Command of every role that has none of its own.').optional(),
  data: z
    .record(z.string().regex(/^[A-Za-z][A-Za-z0-9_-]*$/, { error: 'is no name of a data folder (letters, digits, - and _)' }), text())
    .describe('Input folders by name: paths are put on the cluster, hdfs:// URIs are used where they are.')
    .default({}),
  env: environment.describe("Environment of every role's programs.").default({}),
  roles: z
    .record(z.string().regex(ROLE_NAME, { error: 'is no name of a role (small letters, digits and -)' }), roleSchema)
    .describe('The roles by name; earlier ones get their containers first.'),
  success: z.enum(['all', 'chief']).describe('all: every tracked task must succeed. chief: the end of the chief decides.').default('all'),
  gang: z
    .strictObject({
      timeout: duration('How long the containers of the gang may take to be there together.', {
        min: 1000,
        max: 570_000,
        why: 'YARN takes unused containers back after 10 minutes',
      }).default(300_000),
    })
    .prefault({}),
  heartbeat: z
    .strictObject({
      interval: duration('How often executors report.', { min: 100, max: 60_000 }).default(1000),
      missed: count(2, 1000).describe('A task is lost after so many intervals of silence.').default(10),
    })
    .prefault({}),
  checkpoint: z
    .strictObject({
      dir: text().describe('Folder of the checkpoints (hdfs:// or, in local mode, a path). By default a new one for each job.').optional(),
      every: count(1).describe('Steps between checkpoints.').default(100),
      keep: count(1, 10_000).describe('How many of the newest are kept.').default(3),
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
  timeout: duration('The whole job ends as FAILED after this.', { min: 1000 }).optional(),
  acls: z.strictObject({ view: acl.prefault({}), modify: acl.prefault({}) }).prefault({}),
  master: z
    .strictObject({
      memory: memory("Memory of the ApplicationMaster's container.").default(1024),
      vcores: count(1, 64).describe("Virtual cores of the ApplicationMaster's container.").default(1),
      nodeLabel: text().describe('The ApplicationMaster runs on nodes with this YARN node label only.').optional(),
    })
    .prefault({}),
  tags: z
    .array(
      text()
        .max(100)
        .refine((tag) => !isRoleTag(tag), { error: 'begins like the tags that tell what a job asks for' }),
    )
    .max(20)
    .describe('YARN application tags.')
    .default([]),
});

export type JobFile = z.output<typeof jobSchema>;

/** job.yaml as people write it. */
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
