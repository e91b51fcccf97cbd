import * as z from 'zod';
import { ROLE_NAME } from '../conf/values/role-name.ts';
import { TASK_ENVIRONMENT } from '../contract/process/task-environment.ts';

/*
 * What a program receives from its executor, for programs in any language: docs/environment.schema.json is generated from these schemas.
 * integration-tests/executor/executor.test.ts checks them against the variables and the task file of a real executor.
 */

const number = (least: number) => z.int().min(least);
/** A number in an environment variable. */
const digits = z.string().regex(/^(0|[1-9]\d*)$/);
const uri = z.string().describe('URI of a folder on HDFS, in an object store, or on this machine (file://)');
const role = z.string().regex(ROLE_NAME);
const taskRank = number(0).nullable();

const member = z.strictObject({
  role,
  index: number(0),
  taskRank: taskRank.describe('Null for a task without a rank'),
  host: z.string(),
  port: number(0),
});

/** Fields that only `tony-ts/training` uses. Other programs must not rely on them. */
const INTERNAL = {
  strategy: z.unknown(),
  parameterServers: z.array(z.unknown()),
  hadoop: z.unknown(),
  s3: z.string().nullable(),
  ringKey: z.string(),
  wire: z.strictObject({ dtype: z.string(), security: z.string() }),
};

export const TASK_FILE = z
  .strictObject({
    version: z.literal(1),
    jobId: z.string(),
    jobName: z.string(),
    user: z.string(),
    role,
    index: number(0),
    instances: number(0).describe('Minimum number of tasks that the role requires'),
    taskRank: taskRank.describe('Number of the task among the tasks with ranks; null for a task without a rank, such as an evaluator'),
    taskWorldSize: number(0).describe('Number of tasks with ranks'),
    generation: number(1).describe('How many times the gang has been formed'),
    members: z.array(member).describe('All tasks, with the addresses of their programs'),
    listener: z
      .strictObject({ fd: number(3), host: z.string(), port: number(1) })
      .nullable()
      .describe("The bound socket that the program inherits; null if the framework's own server binds the port"),
    checkpoint: z.strictObject({
      dir: uri,
      everySteps: number(1).nullable().describe('Number of steps between checkpoints; null if only the time counts'),
      everyMs: number(1).nullable().describe('Time between checkpoints in ms; null if only the steps count'),
      keep: number(1),
    }),
    summaryDir: uri,
    outputDir: uri,
    data: z.record(z.string(), uri).describe('Input folders of job.yaml, by name'),
    reportFile: z.string().describe('File to which the program appends reports, one JSON object per line'),
    checkpointOrder: z
      .string()
      .nullable()
      .describe('File that appears when YARN is about to preempt a container. The program then stores a checkpoint and removes the file'),
    memoryBytes: number(1).nullable().describe('Memory of the container; null with `--local`, where nothing limits it'),
    services: z.string().nullable().describe('Folder of the services socket; null if it could not be opened'),
    ...INTERNAL,
  })
  .describe('The file that TONY_TASK_FILE names');

export const TONY_VARIABLES = z.object({
  [TASK_ENVIRONMENT.taskFile]: z.string().regex(/^\//).describe("Path of the task file, which only the job's user can read"),
  [TASK_ENVIRONMENT.jobId]: z
    .string()
    .regex(/^(application|local)_\d+_\d+$/)
    .describe('ID of the job'),
  [TASK_ENVIRONMENT.role]: role.describe('Role of the task'),
  [TASK_ENVIRONMENT.index]: digits.describe('Index of the task within its role, from 0'),
  [TASK_ENVIRONMENT.taskRank]: digits
    .optional()
    .describe('Number of the task among the tasks with ranks; not set for a task without a rank'),
  [TASK_ENVIRONMENT.rank]: digits
    .optional()
    .describe('Rank of the process among all processes of the tasks with ranks; not set without a rank, or if mpirun assigns the ranks'),
  [TASK_ENVIRONMENT.localRank]: digits.optional().describe('Rank of the process within its task; set if TONY_RANK is set'),
  [TASK_ENVIRONMENT.worldSize]: digits.optional().describe('Number of processes with ranks; set if TONY_RANK is set'),
  [TASK_ENVIRONMENT.generation]: digits.describe('How many times the gang has been formed, from 1'),
  [TASK_ENVIRONMENT.checkpointDir]: uri.describe(
    'Checkpoint folder of the job: a URI on HDFS, in an object store, or on this machine (file://)',
  ),
  TONY_RUNTIME: z
    .string()
    .regex(/^\//)
    .optional()
    .describe('Folder of the runtime that tony-ts ships, with Node.js in bin/; not set with `runtime: system`'),
  TONY_PROGRAM_ID: z.string().describe("Marks the program's processes: when the program ends, tony-ts ends all processes with this value"),
});

/** Returns the JSON schema of a program's environment, with the schema of the task file as a definition. */
export function programContract(): Record<string, unknown> {
  const { $schema, ...environment } = z.toJSONSchema(TONY_VARIABLES);
  const { $schema: _, ...taskFile } = z.toJSONSchema(TASK_FILE);
  const { properties, required, ...rest } = taskFile as { properties: Record<string, unknown>; required: readonly string[] };
  const isPublic = (name: string) => !Object.hasOwn(INTERNAL, name);
  return {
    $schema,
    title: 'tony-ts: the environment of a program',
    description: 'Variables that tony-ts sets for each program. Programs also get the variables of job.yaml and of their framework.',
    ...environment,
    // Programs also have other variables.
    additionalProperties: true,
    $defs: {
      taskFile: {
        ...rest,
        properties: Object.fromEntries(Object.entries(properties).filter(([name]) => isPublic(name))),
        required: required.filter(isPublic),
        // Later versions may add fields.
        additionalProperties: true,
      },
    },
  };
}
