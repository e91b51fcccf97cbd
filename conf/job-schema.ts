import * as z from 'zod';
import { apiVersion, withUserKeys } from './api-version.ts';
import { DEFAULT_FRAMEWORK, describeFrameworks, frameworksThat } from './frameworks.ts';
import type { RoleCondition, Strategy } from './job.ts';
import * as values from './job-values.ts';
import { pythonSchema } from './python.ts';
import { shippedFiles } from './shipped-files.ts';
import { DEFAULT_CHECKPOINT_STEPS } from './values/checkpoint-steps.ts';
import { dockerSchema } from './values/docker.ts';
import type { JsonSchema } from './values/json-schema.ts';
import { command, environment } from './values/program-words.ts';
import { EVERY_ROLE } from './values/role-name.ts';
import { atLeastOne, count, duration, memory, text } from './values/value-schemas.ts';

/* Schema of job.yaml. Editors show the descriptions, and the reference page is generated from them. */

const acl = z.strictObject({
  users: z.array(text()).describe('User names; * means every user.').default([]),
  groups: z.array(text()).describe('Group names.').default([]),
});

/** Suggests `memory` if job.yaml contains `mem: 4g`. Without this check, `mem` would count as a YARN resource type. */
const otherResource = count(0, undefined, ({ path }) => {
  const key = String(path?.at(-1));
  return `YARN resource type \`${key}\` requires a whole number`;
});

const FILE = 'Path of the file, relative to job.yaml, or its hdfs:// URI.';
const ARCHIVE = 'Path of an archive (.tar.gz, .tgz, .tar or .zip) or of a folder, relative to this file, or the hdfs:// URI of an archive.';

const resources = z
  .object({
    memory: memory('Memory of each container. Use at least 1g if YARN checks virtual memory.').prefault('2g'),
    vcores: values.vcoreCount().describe('Number of virtual cores in each container.').default(1),
    gpus: values
      .gpuCount()
      .describe("Number of GPUs in each container (YARN resource type yarn.io/gpu). The task's programs see only these GPUs.")
      .default(0),
  })
  .catchall(otherResource.describe('Amount of another YARN resource type. The key is the name of this type in YARN.'))
  .describe("Resources of each of the role's containers.");

/** The name of a role, or `*`, which `mergeEveryRole` removes. */
const roleKey = z.union([z.literal(EVERY_ROLE), values.roleName]);

const mapping = z.strictObject({
  role: values.roleName.describe('Name of the other role.'),
  state: values.awaitedState
    .describe(
      'succeeded: every task of the other role has succeeded. All roles with ranks succeed at the same time. running: every task of the other role is running or has succeeded.',
    )
    .default('succeeded'),
});

const condition = z
  .union([values.roleName, mapping], { error: 'expected the name of a role, or {role, state}' })
  .transform((value) => (typeof value === 'string' ? succeeded(value) : value));

function succeeded(role: string): RoleCondition {
  return { role, state: 'succeeded' };
}

const endAfter = z.strictObject({
  role: z
    .union([values.roleName, atLeastOne(values.roleName)], { error: 'expected the name of a role, or a list of names' })
    .transform((value) => (typeof value === 'string' ? [value] : value))
    .describe('Name of the other role, or a list of names. A role has ended when all of its tasks have ended.'),
  timeout: duration('How long the tasks of this role may keep running after the other roles have ended.', values.END_WITHIN).prefault('0s'),
  late: values.late
    .describe(
      'What happens to tasks that are still running when the time set by `timeout` is up. stop: tony-ts stops these tasks, which does not count as a failure. fail: the job fails.',
    )
    .default('stop'),
});

export const roleSchema = z.strictObject({
  kind: values.roleKind
    .describe(
      'How the tasks of this role take part in the job. gang: the tasks have ranks (TONY_RANK, TONY_WORLD_SIZE), and start and restart together. independent: the tasks have no rank, and each restarts alone. The job waits for the tasks of both kinds, and fails if one of them fails: these roles are tracked. service: the job does not wait for the tasks, but fails if one of them fails. sidecar: the job does not wait for the tasks, and ignores their failures. The default is gang. For roles named evaluator, ps or tensorboard, the default is independent; with strategy parameter-server, the role ps is a service.',
    )
    .optional(),
  instances: z
    .union(
      [
        values.taskCount(),
        z.strictObject({
          min: values.taskCount().describe('Minimum number of tasks. The job waits until this number of tasks can start.'),
          max: values
            .taskCount()
            .describe('Maximum number of tasks. The job adds tasks up to this number when the cluster has free resources.'),
        }),
      ],
      { error: 'expected a number, or {min, max}' },
    )
    .transform((value) => (typeof value === 'number' ? { min: value, max: value } : value))
    .describe("Number of tasks. With {min, max}, the number varies with the cluster's free resources.")
    .prefault(1),
  resources: resources.prefault({}),
  command: command.describe("Shell command, run by bash in a copy of the source folder. The default is the job's command.").optional(),
  files: shippedFiles(FILE, "Files for the role's programs, in addition to the job's files."),
  archives: shippedFiles(ARCHIVE, "Archives for the role's programs, in addition to the job's archives."),
  env: environment(values.variableName)
    .describe("Environment variables for the role's programs. They override the job's variables.")
    .default({}),
  nodeLabel: text().describe('YARN node label of the nodes on which the role runs.').optional(),
  docker: dockerSchema
    .describe("Docker image for the role's tasks. Requires a cluster that uses the LinuxContainerExecutor with the Docker runtime.")
    .prefault(null),
  restart: z
    .strictObject({
      policy: values.restartPolicy
        .describe(
          'Whether tony-ts restarts a failed task. never: also does not restart a task whose container the cluster took after its program had started.',
        )
        .default('on-failure'),
      maxRestarts: count(0, values.MOST_RESTARTS)
        .describe(
          'Maximum number of restarts of each task after its failures, counted over the whole job; failures that the cluster caused do not count. Also limits how often in a row the gang may restart without a new checkpoint. A generation that runs for 10 minutes starts this count again.',
        )
        .default(3),
      onExitCodes: values.onExitCodes
        .describe(
          'Program exit codes after which tony-ts restarts the task, at most maxRestarts times. After any other exit code, the task has failed permanently. By default, a task restarts after every exit code except 0, but not after errors that each run would repeat, such as a missing program file, a failed import or a syntax error. If a signal kills the program, its exit code is 128 plus the signal number.',
        )
        .optional(),
    })
    .describe('Whether, how often and after which exit codes failed tasks of this role restart.')
    .prefault({}),
  timeout: duration(
    "Time limit for each run of a task's program. At the limit, the program receives SIGTERM, and SIGKILL after its gracePeriod. The task then fails, and the restart policy applies.",
    values.TASK_TIMEOUT,
  ).optional(),
  gracePeriod: duration(
    "How long a program may keep running after SIGTERM, for example to save its state. Then tony-ts sends SIGKILL. This applies when the gang restarts, when a program reaches its timeout, when `endAfter` ends it, when an elastic role gives up a task, and when the job ends or `tony-ts kill` ends it. The task's next program starts only after the program has ended. There is no grace period if YARN itself ends the container (a preemption, a lost node, `yarn application -kill`, a kill by a user other than the job's, or a kill with `remoteAccess: false`), or if the executor cannot reach an ApplicationMaster before its lease expires.",
    values.GRACE_PERIOD,
  ).prefault('3s'),
  after: z
    .union([values.roleName, mapping, atLeastOne(condition).max(values.MOST_ROLES, { error: values.TOO_MANY_CONDITIONS })], {
      error: 'expected the name of a role, {role, state}, or a list of these',
    })
    .transform((value) => (Array.isArray(value) ? value : [typeof value === 'string' ? succeeded(value) : value]))
    .describe(
      'Roles that this role waits for, each as {role, state}, or as a name, which stands for {role: NAME, state: succeeded}. The job requests containers for this role only once those roles have reached the given states. If this role has ranks, all other roles with ranks wait as well.',
    )
    .optional(),
  endAfter: endAfter
    .describe('Ends the tasks of this role when the given roles have ended. Use it for programs that would otherwise run forever.')
    .optional(),
});

/** Resources of a container that tony-ts itself needs. */
function ownResources(container: string) {
  return z
    .strictObject({
      memory: memory(`Memory of ${container}.`).prefault('1g'),
      vcores: values.ownVcoreCount().describe(`Virtual cores of ${container}.`).default(1),
    })
    .describe(`Resources of ${container}.`)
    .prefault({});
}

export const tensorboardSchema = z.strictObject({
  logdir: text().describe('Folder for TensorBoard summaries. By default, each job creates a new folder.').optional(),
  resources: ownResources("TensorBoard's container"),
});

export const wireSchema = z.strictObject({
  dtype: values.wireDtype
    .describe('Number format in which workers send gradients with strategy all-reduce. Gradients are always summed in float32.')
    .default('float32'),
  security: values.wireSecurity
    .describe(
      "Protection of the TCP connections between the job's programs. none: the programs authenticate each other, but the data is not protected. authenticated: programs detect data that was modified, replayed, removed or injected on the network. encrypted: in addition, only the programs can read the data.",
    )
    .default('none'),
});

const strategy = z
  .union(
    [
      z.enum(['all-reduce', 'parameter-server']),
      z.strictObject({ type: z.literal('all-reduce').describe('Name of the strategy.') }),
      z.strictObject({
        type: z.literal('parameter-server').describe('Name of the strategy.'),
        staleness: values
          .stepsOfStaleness()
          .describe('Maximum number of steps by which a worker may be ahead of the slowest worker. The default is unlimited.')
          .optional(),
      }),
    ],
    { error: 'expected all-reduce or parameter-server, or {type: parameter-server, staleness}' },
  )
  .transform((value): Strategy => {
    const given = typeof value === 'string' ? { type: value } : value;
    return given.type === 'all-reduce'
      ? { type: 'all-reduce' }
      : { type: 'parameter-server', staleness: ('staleness' in given ? given.staleness : undefined) ?? null };
  });

export const jobSchema = z.strictObject({
  apiVersion,
  name: values.jobName.describe(
    'Job name in YARN and on the job page: at most 200 characters. It may contain letters, digits, spaces and the characters . _ : @ + and -. The first character must be a letter, a digit or _.',
  ),
  queue: text().describe('YARN queue to which the job is submitted.').default('default'),
  source: z
    .union(
      [
        text().refine((path) => path !== 'none', { error: 'write null for no folder, or ./none for a folder with this name' }),
        z.null(),
        z.strictObject({
          path: text().describe('Folder with your code, relative to this file.'),
          exclude: z
            .array(text())
            .describe('Files to exclude, in .gitignore syntax, in addition to the patterns in .tonyignore.')
            .default([]),
        }),
      ],
      { error: 'expected a folder, {path, exclude}, or null' },
    )
    .transform((value) => (typeof value === 'string' ? { path: value, exclude: [] } : value))
    .describe(
      'Folder with your code, relative to this file. Defaults to the folder that contains job.yaml if a command refers to a file or Python module there. null: no folder. tony-ts does not upload files listed in .tonyignore, version control folders, Python virtual environments, or files that usually contain secrets (.env, .npmrc, *.pem, id_rsa ...). To upload such a file anyway, add a line such as !.env to .tonyignore.',
    )
    .optional(),
  framework: values.framework.describe(describeFrameworks()).default(DEFAULT_FRAMEWORK),
  processesPerTask: values.processesPerTask
    .describe(
      `Number of processes that each task runs. Applies to the frameworks ${frameworksThat(({ runsProcesses }) => runsProcesses === true, 'and')}. auto: one process for each of the task's GPUs, but at least one process.`,
    )
    .default('auto'),
  runtime: text()
    .describe(
      'default: the archive created by `tony-ts runtime build`. If the gpu archive has already been built, a tfjs job that requests GPUs uses that archive instead. gpu: the archive created by `tony-ts runtime build --gpu`, which includes CUDA libraries. system: the Node.js installed on the nodes. Any other value is the URI of a runtime archive.',
    )
    .default('default'),
  python: pythonSchema
    .describe(
      "Python for the programs of all roles. system: the node's python3. {requirements}: the node's python3 with packages that tony-ts downloads and ships. {archive}: an archived environment that contains its own interpreter.",
    )
    .default('system'),
  command: command.describe('Default command for the roles.').optional(),
  data: z
    .record(
      values.dataName,
      text().describe('Path to the folder, relative to this file, or its URI on HDFS or in an object store (s3://).'),
    )
    .describe('Input folders by name. tony-ts uploads local folders. Programs read folders on HDFS and in object stores directly.')
    .default({}),
  files: shippedFiles(
    FILE,
    "Files that YARN copies to each node. Each key is the name of the file in the programs' working directory. Programs must not change these files, because all containers on a node share one copy. YARN rejects a file on HDFS that has changed since the submission.",
  ),
  archives: shippedFiles(
    ARCHIVE,
    "Archives that YARN copies to each node and unpacks. Each key is the name of the resulting folder in the programs' working directory. The rules for `files` also apply to `archives`.",
  ),
  env: environment(values.variableName)
    .describe(
      'Environment variables for the programs of all roles. Do not put passwords or tokens here, because your history contains the values: your program should read them from a file on HDFS (docs/faq.md).',
    )
    .default({}),
  roles: z
    .record(roleKey, roleSchema.describe('Group of tasks with the same command and the same resources.'))
    .refine((roles) => Object.keys(roles).length <= values.MOST_ROLES, { error: values.TOO_MANY_ROLES })
    .describe(
      `Roles by name, at most ${values.MOST_ROLES}. Roles at the top of the list receive containers first. The keys of an entry "*" apply to every role that does not set them, and add no role. Mappings such as resources and env are merged.`,
    ),
  chief: values.roleName
    .describe(
      'Role whose task 0 is the chief. The role must be tracked (kind gang or independent). By default, this is the role named chief. If there is no such role, it is the role named worker. If that role does not exist either, it is the first tracked role.',
    )
    .optional(),
  successPolicy: values.successPolicy
    .describe(
      "all: the job succeeds if every tracked task succeeds. chief: the chief's result is the job's result. If another task has used up its restarts, the job continues without that task. ended: the job ends when all tracked tasks have ended, and the chief's result is the job's result. If another tracked task has used up its restarts, the job continues without that task. With `restart.policy: never`, the failure of such a task fails the job.",
    )
    .default('all'),
  restart: z
    .strictObject({
      maxRestarts: count(0, values.MOST_RESTARTS)
        .describe(
          'Maximum number of restarts in the whole job, after failures of all its tasks together. Only failures that use up a restart of their task count: when a failure restarts the gang, it counts once. By default, only the limits of the roles (roles.ROLE.restart.maxRestarts) apply.',
        )
        .optional(),
    })
    .describe('How often tasks of the whole job restart. The limits for each task are in `roles`.')
    .prefault({}),
  gang: z
    .strictObject({
      timeout: duration(
        'How long the gang, or a task that restarts alone (such as an evaluator), may lack containers before the job reports the missing tasks and starts to request the containers again. After three times in a row, the job fails: by default after 15 minutes, unless the task is a sidecar. The time in which the job waits for its ApplicationMaster (ACCEPTED), for a quota, or for other roles (`after`) does not count. While the cluster has no room for the whole gang, the job returns containers that it cannot use after some seconds, and requests them again after pauses that grow to a few minutes.',
        values.GANG_TIMEOUT,
      ).prefault('5m'),
    })
    .describe('How the job forms the gang.')
    .prefault({}),
  heartbeat: z
    .strictObject({
      interval: duration(
        'Interval at which executors send heartbeats. With N tasks, at least N/500 s.',
        values.HEARTBEAT_INTERVAL,
      ).prefault('1s'),
      missed: values
        .missedHeartbeats()
        .describe('Number of consecutive missed heartbeats after which the job considers a task lost.')
        .default(10),
    })
    .describe('Heartbeats from the executors to the ApplicationMaster.')
    .prefault({}),
  checkpoint: z
    .strictObject({
      dir: text()
        .describe(
          'Folder for checkpoints, as a URI on HDFS or in an object store (s3://). In local mode, the folder may be a path. By default, each job creates a new folder.',
        )
        .optional(),
      everySteps: values
        .checkpointSteps()
        .describe(
          `Number of training steps between checkpoints. The default is ${DEFAULT_CHECKPOINT_STEPS}, or none if \`every\` is set. With \`every\` too, the next checkpoint is written when the first of both is due.`,
        )
        .optional(),
      every: duration(
        'Time between checkpoints. The task with rank 0 measures it, and all ranks write the checkpoint after the same step. By default, only the number of steps counts.',
        values.CHECKPOINT_INTERVAL,
      ).optional(),
      keep: values.checkpointKeep().describe('Number of checkpoints to keep. tony-ts removes older checkpoints.').default(3),
      sync: values
        .syncFolder()
        .describe(
          "Checkpoint folder for programs that do not use a tony-ts API. The folder is below the program's working directory, and the executor synchronizes it with the job's checkpoints. Before a program starts, the folder contains only the newest checkpoint. When the program with rank 0 has created NAME.done, the executor stores the file or folder NAME as a checkpoint. The last number in NAME is the step. Not available for the tfjs framework.",
        )
        .optional(),
    })
    .describe('Training checkpoints.')
    .prefault({}),
  tensorboard: z
    .union([z.boolean(), z.null(), tensorboardSchema], { error: 'expected true, false, null, or {logdir, resources}' })
    .transform((value) =>
      typeof value === 'object' && value !== null ? { ...value, serve: true } : { ...tensorboardSchema.parse({}), serve: value === true },
    )
    .describe(
      "Whether the job runs TensorBoard. If it does, the job's tracking URL opens TensorBoard. TensorBoard failures do not affect training.",
    )
    .prefault(false),
  strategy: strategy
    .describe(
      'How the workers share the weights. all-reduce: all workers average their gradients in every step. parameter-server: the tasks of the ps role hold the weights.',
    )
    .prefault('all-reduce'),
  wire: wireSchema.describe('How the programs of a job with framework tfjs exchange data.').prefault({}),
  timeout: duration(
    'Time limit for the whole job. A job that exceeds the limit fails. The time starts when the ApplicationMaster starts or, if quotas hold the job, when they admit it. It includes the time in which the job waits for containers and roles wait for other roles.',
    values.JOB_TIMEOUT,
  ).optional(),
  acls: z
    .strictObject({
      view: acl.describe('Users and groups that may view the job.').prefault({}),
      modify: acl.describe('Users and groups that may kill the job.').prefault({}),
    })
    .describe('Users and groups with access to the job. Takes effect only on a cluster with ACLs enabled.')
    .prefault({}),
  kerberos: z
    .union(
      [
        z.null(),
        z.strictObject({
          keytab: text().describe('Keytab file on the submitting machine, relative to this file; ~/ is your home folder.'),
          principal: values.principal.describe("Principal to use from the keytab. The default is your ticket's principal.").optional(),
        }),
      ],
      { error: 'expected {keytab, principal}, or null' },
    )
    .describe(
      "Keytab for jobs that run longer than their delegation tokens are valid (7 days by default). Only the ApplicationMaster receives the keytab. It uses the keytab to replace the job's tokens before they expire. null: no keytab.",
    )
    .default(null),
  remoteAccess: z
    .boolean()
    .describe(
      "Whether the job's user may run commands in running tasks and connect to their ports, with `tony-ts exec`, `shell`, `forward` and `notebook`.",
    )
    .default(true),
  master: z
    .strictObject({
      resources: ownResources("the ApplicationMaster's container"),
      nodeLabel: text().describe('YARN node label of the nodes on which the ApplicationMaster runs.').optional(),
      docker: dockerSchema.describe('Docker image for the ApplicationMaster.').prefault(null),
      env: environment(values.masterVariableName).describe('Environment variables for the ApplicationMaster.').default({}),
      logLevel: values.logLevel.describe('Log level of the ApplicationMaster.').default('info'),
      failureWindow: duration(
        'Period within which YARN counts failed ApplicationMaster attempts. By default, YARN counts all failed attempts.',
        values.FAILURE_WINDOW,
      ).optional(),
      startTimeout: duration(
        'How long `submit` waits for the ApplicationMaster to start. After this time, `submit` kills the job. The default is unlimited.',
        values.MASTER_START_TIMEOUT,
      ).optional(),
    })
    .describe('Settings for the ApplicationMaster.')
    .prefault({}),
  priority: values
    .applicationPriority()
    .describe(
      'YARN priority within the queue. YARN serves applications with higher numbers first. The maximum is yarn.cluster.max-application-priority, which is 0 by default.',
    )
    .default(0),
  tags: z
    .array(values.tag)
    .max(values.MOST_TAGS)
    .describe(
      'YARN application tags. By default, the ResourceManager accepts ten tags per application. tony-ts uses two of them, or more if the job has many roles.',
    )
    .default([]),
});

export type JobYaml = z.output<typeof jobSchema>;

export type JobInput = z.input<typeof jobSchema>;

/** Returns the JSON Schema (2020-12) for job.yaml, for use in editors. */
export function jobJsonSchema(): JsonSchema {
  return withUserKeys({ title: 'tony-ts job', ...z.toJSONSchema(jobSchema, { io: 'input', unrepresentable: 'any' }) });
}
