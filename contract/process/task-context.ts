import * as z from 'zod';
import { WIRE_DTYPES, WIRE_SECURITY } from '../../conf/job.ts';
import type { DeepReadonly } from '../../platform/deep-readonly.ts';

const wholeNumber = z.number().int().nonnegative();
const positive = z.number().int().positive();
const taskRank = wholeNumber.nullable();
const address = { host: z.string().min(1), port: z.number().int().min(1).max(65_535) };
/** A task that has no executor yet has an empty host and port 0. */
const memberAddress = { host: z.string(), port: z.number().int().min(0).max(65_535) };
const member = z.object({ role: z.string(), index: wholeNumber, taskRank, ...memberAddress });

export const taskSchema = z.object({
  version: z.literal(1),
  jobId: z.string(),
  jobName: z.string(),
  role: z.string(),
  index: wholeNumber,
  /** The minimum number of tasks required by the role. */
  instances: positive,
  /** The task's number within the gang, or null for tasks without a rank, such as evaluators and parameter servers. */
  taskRank,
  /** The number of tasks that have a rank. A task may run several processes, each with a rank of its own. */
  taskWorldSize: wholeNumber,
  /** How many times the gang has been formed, starting at 1. */
  generation: wholeNumber,
  members: z.array(member),
  /** The file descriptor and the address of a bound socket that the program inherits, or null if there is none. */
  listener: z.object({ fd: wholeNumber, ...address }).nullable(),
  /** The base64 key that ranks use to authenticate each other. */
  ringKey: z.string(),
  strategy: z.discriminatedUnion('type', [
    z.object({ type: z.literal('all-reduce') }),
    z.object({ type: z.literal('parameter-server'), staleness: wholeNumber.nullable() }),
  ]),
  /** The number format of gradients on the network, and the protection of connections between tasks. */
  wire: z.object({ dtype: z.enum(WIRE_DTYPES), security: z.enum(WIRE_SECURITY) }),
  /** The addresses of the parameter servers, by index. Empty unless the strategy is `parameter-server`. */
  parameterServers: z.array(z.object(address)),
  /** `everySteps`, `everyMs`: how often the program writes checkpoints. Null if only the other one counts. */
  checkpoint: z.object({ dir: z.string(), everySteps: wholeNumber.nullable(), everyMs: positive.nullable(), keep: positive }),
  summaryDir: z.string(),
  outputDir: z.string(),
  data: z.record(z.string(), z.string()),
  user: z.string(),
  /** Hadoop properties for accessing hdfs://, or null in local mode. */
  hadoop: z.record(z.string(), z.string()).nullable(),
  /** The encoded JobConnections for accessing s3://, or null if the job does not name an s3:// URI. */
  s3: z.string().nullable(),
  /** The file to which the program appends its reports, one JSON object per line (see Report). */
  reportFile: z.string(),
  /**
   * The path of the checkpoint order file, or null if the task does not receive checkpoint orders. The executor creates this file when YARN
   * is about to preempt the job's containers. The program must then take a checkpoint immediately and delete the file.
   */
  checkpointOrder: z.string().nullable(),
  /**
   * The folder that contains the Unix socket on which the executor accepts requests for the ApplicationMaster (see `Services`), or null if
   * the task has no services.
   */
  services: z.string().nullable(),
  /** The container's memory, or null for a local job, which has no memory limit. */
  memoryBytes: positive.nullable(),
});

/**
 * The executor's description of the task for the user's program, stored in a JSON file (mode 0600). TONY_TASK_FILE contains the path of
 * the file.
 */
export type TaskContext = DeepReadonly<z.output<typeof taskSchema>>;
export type Member = TaskContext['members'][number];

/** Returns the names of the ranked tasks, by rank. */
export function rankNames({ members }: TaskContext): string[] {
  const ranked = members.filter(({ taskRank }) => taskRank !== null).sort((one, other) => (one.taskRank ?? 0) - (other.taskRank ?? 0));
  return ranked.map(({ role, index }) => `${role}:${index}`);
}

/** One line of the report file. Programs in any language can write it. */
export type Report =
  /**
   * `total`: the step number expected at the end of training. `curves`: whether the executor also writes the metrics as summaries. Programs
   * that write their own summaries do not set it.
   */
  | {
      readonly type: 'progress';
      readonly step: number;
      readonly total?: number | undefined;
      readonly metrics?: Readonly<Record<string, number>>;
      readonly curves?: boolean;
    }
  | { readonly type: 'checkpoint'; readonly step: number }
  | { readonly type: 'peer-lost'; readonly taskRank: number }
  /** A message to the user. A newer notice with the same `about` replaces it. */
  | { readonly type: 'notice'; readonly message: string; readonly about?: string }
  /** Training ends with this step, before its last epoch. Only rank 0 sends this report. */
  | { readonly type: 'early-end'; readonly step: number; readonly reason: string }
  /** The phase has taken its last step but has not written its final checkpoint yet. */
  | { readonly type: 'last-step'; readonly step: number }
  /** The program is about to fail with an error that a restart would repeat. */
  | { readonly type: 'permanent-failure' };
