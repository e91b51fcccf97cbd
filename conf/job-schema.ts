import { z } from 'zod';
import type { Strategy } from './job.ts';
import * as values from './job-values.ts';
import { dockerSchema } from './values/docker.ts';
import { meantResource } from './values/resource-key.ts';
import { count, duration, memory, text } from './values/value-schemas.ts';

/* The schema of job.yaml as users write it. Editors show the descriptions of the keys, and the reference is generated from them. */

/** Converts unquoted numbers and booleans to text. */
const environmentValue = z
  .union([z.string(), z.number(), z.boolean()], { error: 'expected a string, number or boolean' })
  .transform((value) => String(value));
const environment = z.record(values.variableName, environmentValue.describe('Value of the variable.'));

const acl = z.strictObject({
  users: z.array(text()).describe('Names of users; * stands for every user.').default([]),
  groups: z.array(text()).describe('Names of groups.').default([]),
});

/** `mem: 4g` is a misspelled `memory`, not a resource type `mem`. */
const otherResource = count(0, undefined, ({ path }) => {
  const key = String(path?.at(-1));
  const meant = meantResource(key);
  return `${meant === undefined ? '' : `did you mean \`${meant}\`? `}YARN resource type \`${key}\` requires a whole number`;
});

const resources = z
  .object({
    memory: memory('Memory of each container. Use at least 1g if YARN checks virtual memory.').default(2048),
    vcores: values.vcoreCount().describe('Virtual cores of each container.').default(1),
    gpus: values.gpuCount().describe('GPUs of each container (YARN resource type yarn.io/gpu).').default(0),
  })
  .catchall(otherResource.describe('Amount of any other YARN resource type, by its name.'))
  .describe('Resources of each container of the role.');

export const roleSchema = z.strictObject({
  instances: z
    .union(
      [
        values.taskCount(),
        z.strictObject({
          min: values.taskCount().describe('Minimum number of tasks; the job waits while it has fewer.'),
          max: values.taskCount().describe('Maximum number of tasks; the job grows towards it while the cluster has room.'),
        }),
      ],
      { error: 'expected a number, or {min, max}' },
    )
    .transform((value) => (typeof value === 'number' ? { min: value, max: value } : value))
    .describe('Number of tasks; with {min, max} the job grows and shrinks.')
    .default({ min: 1, max: 1 }),
  resources: resources.prefault({}),
  command: text().describe("Command that bash runs in a copy of the source folder; by default the job's command.").optional(),
  env: environment.describe("Environment variables of the role's programs; they override the job's.").default({}),
  nodeLabel: text().describe('YARN node label of the nodes on which the role runs.').optional(),
  docker: dockerSchema
    .describe('Docker image in which the tasks of the role run; requires a cluster with the LinuxContainerExecutor and its Docker runtime.')
    .default(null),
  restart: z
    .strictObject({
      policy: values.restartPolicy.describe('Whether a failed task is restarted.').default('on-failure'),
      maxRestarts: count(0, values.MOST_RESTARTS)
        .describe('Maximum number of restarts of each task. Failures that the cluster causes do not count.')
        .default(3),
    })
    .describe('Restarts of failed tasks of this role.')
    .prefault({}),
  sidecar: z.boolean().describe('The job neither waits for the tasks of this role nor fails with them.').default(false),
  untracked: z
    .boolean()
    .describe('The job does not wait for the tasks of this role, but fails when one of them fails (parameter servers).')
    .default(false),
  chief: z
    .boolean()
    .describe(
      'Whether task 0 of this role is the chief. By default, the chief is task 0 of the role chief; without this role, of the role worker; without both, of the first tracked role.',
    )
    .optional(),
  ranked: z
    .boolean()
    .describe(
      'The tasks of this role have ranks (TONY_RANK, TONY_WORLD_SIZE), and start and restart together. The default is true, except for roles named evaluator, ps or tensorboard, and for sidecar and untracked roles.',
    )
    .optional(),
});

export const tensorboardSchema = z.strictObject({
  logdir: text().describe('Folder of the summaries. The default is a new folder for each job.').optional(),
  memory: memory("Memory of TensorBoard's container.").default(1024),
});

/** Either the name alone, or a mapping with the name and options. */
const strategy = z
  .union(
    [
      z.enum(['all-reduce', 'parameter-server']),
      z.strictObject({
        type: z.literal('all-reduce').describe('Name of the strategy.'),
        wire: values.wire.describe('Type of the gradients on the network; workers sum them as float32.').default('float32'),
      }),
      z.strictObject({
        type: z.literal('parameter-server').describe('Name of the strategy.'),
        staleness: values
          .stepsOfStaleness()
          .describe('Maximum number of steps that a worker may be ahead of the slowest worker; unlimited by default.')
          .optional(),
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
  name: values.jobName.describe(
    'Name that YARN and the job page show: at most 200 letters, digits, spaces and . _ : @ + -, starting with a letter, a digit or _.',
  ),
  queue: text().describe('YARN queue.').default('default'),
  source: z
    .union(
      [
        text(),
        z.strictObject({
          path: text().describe('Folder with your code, relative to this file.'),
          exclude: z.array(text()).describe('Patterns in .gitignore syntax, in addition to those in .tonyignore.').default([]),
        }),
      ],
      { error: 'expected a folder, {path, exclude}, or none' },
    )
    .transform((value) => (value === 'none' ? null : typeof value === 'string' ? { path: value, exclude: [] } : value))
    .describe(
      'Folder with your code, relative to this file. The default is the folder of this file if a command names a file in it. none: no folder. Files that .tonyignore lists are excluded. Files whose names indicate secrets (.env, .npmrc, *.pem, id_rsa ...) are also excluded, unless .tonyignore includes them with a line such as !.env.',
    )
    .optional(),
  framework: values.framework.describe('tfjs: programs can import TensorFlow.js. none: any program.').default('tfjs'),
  runtime: text()
    .describe(
      'default: the archive that `tony-ts runtime build` builds. gpu: the archive that `tony-ts runtime build --gpu` builds, in which TensorFlow uses CUDA. system: Node.js as installed on the nodes. Any other value is the URI of such an archive.',
    )
    .default('default'),
  command: text().describe('Command of every role that does not set its own.').optional(),
  data: z
    .record(values.dataName, text().describe('Path, relative to this file, or URI of the folder.'))
    .describe('Input folders by name: local paths are uploaded to the cluster, hdfs:// URIs are read in place.')
    .default({}),
  env: environment.describe("Environment variables of every role's programs.").default({}),
  roles: z
    .record(values.roleName, roleSchema.describe('One role: tasks with the same command and the same resources.'))
    .describe('Roles by name; earlier roles receive their containers first.'),
  success: values.success
    .describe(
      "all: every tracked task must succeed. chief: the chief's result decides, and the job continues without a task that has used up its restarts.",
    )
    .default('all'),
  gang: z
    .strictObject({
      timeout: duration(
        'How long the job waits for all containers of the gang. After this time, it releases the containers that it has, pauses, and requests all of them again.',
        values.GANG_TIMEOUT,
      ).default(300_000),
    })
    .describe('How the job forms the gang.')
    .prefault({}),
  heartbeat: z
    .strictObject({
      interval: duration('Interval at which executors send heartbeats.', values.HEARTBEAT_INTERVAL).default(1000),
      missed: values.missedHeartbeats().describe('Number of missed heartbeats after which a task counts as lost.').default(10),
    })
    .describe('Heartbeats between executors and the ApplicationMaster.')
    .prefault({}),
  checkpoint: z
    .strictObject({
      dir: text()
        .describe('Folder of the checkpoints (hdfs:// or, in local mode, a path). The default is a new folder for each job.')
        .optional(),
      every: values.checkpointEvery().describe('Steps between checkpoints.').default(100),
      keep: values.checkpointKeep().describe('Number of newest checkpoints to keep.').default(3),
    })
    .describe('Training checkpoints.')
    .prefault({}),
  tensorboard: z
    .union([z.boolean(), tensorboardSchema], { error: 'expected true, false, or {logdir, memory}' })
    .transform((value) => (typeof value === 'boolean' ? { ...tensorboardSchema.parse({}), serve: value } : { ...value, serve: true }))
    .describe('Whether the job runs TensorBoard, behind its tracking URL. Training does not depend on TensorBoard.')
    .default({ memory: 1024, serve: false }),
  strategy: strategy
    .describe('all-reduce: each step averages the gradients of all workers. parameter-server: tasks of the role ps hold the weights.')
    .default({ type: 'all-reduce', wire: 'float32' }),
  timeout: duration('Time after which the whole job ends as FAILED.', values.JOB_TIMEOUT).optional(),
  acls: z
    .strictObject({
      view: acl.describe('Users and groups that may view the job.').prefault({}),
      modify: acl.describe('Users and groups that may kill the job.').prefault({}),
    })
    .describe('Access to the job, if the cluster checks ACLs.')
    .prefault({}),
  master: z
    .strictObject({
      memory: memory("Memory of the ApplicationMaster's container.").default(1024),
      vcores: values.masterVcoreCount().describe("Virtual cores of the ApplicationMaster's container.").default(1),
      nodeLabel: text().describe('YARN node label of the nodes on which the ApplicationMaster runs.').optional(),
      docker: dockerSchema.describe('Docker image in which the ApplicationMaster runs.').default(null),
      env: environment.describe('Environment variables of the ApplicationMaster.').default({}),
      logLevel: values.logLevel.describe("Level of the ApplicationMaster's log.").default('info'),
      failureWindow: duration(
        'YARN counts only failures of the ApplicationMaster within this time towards the maximum of attempts. By default all count.',
        values.FAILURE_WINDOW,
      ).optional(),
      startTimeout: duration(
        'How long `submit` waits for the ApplicationMaster to start before it kills the job. By default it waits without limit.',
        values.MASTER_START_TIMEOUT,
      ).optional(),
    })
    .describe('The ApplicationMaster.')
    .prefault({}),
  priority: values
    .applicationPriority()
    .describe(
      'YARN priority among the applications of the queue: YARN serves higher numbers first. The cluster limits it by yarn.cluster.max-application-priority, which is 0 by default.',
    )
    .default(0),
  tags: z
    .array(values.tag)
    .max(values.MOST_TAGS)
    .describe(
      'YARN application tags. The ResourceManager accepts ten tags by default. tony-ts itself needs two of them, or more if the job has many roles.',
    )
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
