import { type Strategy, TASK_FILE_VARIABLE } from '../../conf/job.ts';

/**
 * The executor's description of the task for the user's program, stored in a JSON file (mode 0600). TONY_TASK_FILE contains the path of
 * the file.
 */
export interface TaskContext {
  readonly version: 1;
  readonly applicationId: string;
  readonly jobName: string;
  readonly role: string;
  readonly index: number;
  /** The minimum number of tasks required by the role. */
  readonly roleSize: number;
  /** The task's number within the gang, or null for tasks without a rank, such as evaluators and parameter servers. */
  readonly rank: number | null;
  readonly worldSize: number;
  /** How many times the gang has been formed, starting at 1. */
  readonly generation: number;
  readonly members: readonly Member[];
  /** The file descriptor and the address of a bound socket that the program inherits, or null if there is none. */
  readonly listener: { readonly fd: number; readonly host: string; readonly port: number } | null;
  /** The base64 key that ranks use to authenticate each other. */
  readonly ringKey: string;
  readonly strategy: Strategy;
  /** The addresses of the parameter servers, by index. Empty unless the strategy is `parameter-server`. */
  readonly parameterServers: readonly { readonly host: string; readonly port: number }[];
  readonly checkpoint: { readonly dir: string; readonly everySteps: number; readonly keep: number };
  readonly summaryDir: string;
  readonly outputDir: string;
  readonly data: Readonly<Record<string, string>>;
  readonly user: string;
  /** Hadoop properties for accessing hdfs://, or null in local mode. */
  readonly hadoop: Readonly<Record<string, string>> | null;
  /** The encoded JobConnections for accessing s3://, or null if the job does not name an s3:// URI. */
  readonly s3: string | null;
  /** The file to which the program appends its reports, one JSON object per line (see Report). */
  readonly reportFile: string;
  /**
   * The path of the checkpoint order file, or null if the task does not receive checkpoint orders. The executor creates this file when YARN
   * is about to preempt the job's containers. The program must then take a checkpoint immediately and delete the file.
   */
  readonly checkpointOrder: string | null;
  /**
   * The folder that contains the Unix socket on which the executor accepts requests for the ApplicationMaster (see `Services`), or null if
   * the task has no services.
   */
  readonly services: string | null;
  /** The container's memory in MiB, or null for a local job, which has no memory limit. */
  readonly memoryMb: number | null;
}

export interface Member {
  readonly role: string;
  readonly index: number;
  readonly rank: number | null;
  readonly host: string;
  readonly port: number;
}

/** One line of the report file. Programs in any language can write it. */
export type Report =
  /** `total`: the step number expected at the end of training. */
  | {
      readonly type: 'progress';
      readonly step: number;
      readonly total?: number | undefined;
      readonly metrics?: Readonly<Record<string, number>>;
    }
  | { readonly type: 'checkpoint'; readonly step: number }
  | { readonly type: 'peer-lost'; readonly rank: number }
  /** A message to the user. A newer notice with the same `about` replaces it. */
  | { readonly type: 'notice'; readonly message: string; readonly about?: string }
  /** Training ends with this step, before its last epoch. Only rank 0 sends this report. */
  | { readonly type: 'early-end'; readonly step: number; readonly reason: string }
  /** The phase has taken its last step but has not written its final checkpoint yet. */
  | { readonly type: 'last-step'; readonly step: number }
  /** The program is about to fail with an error that a restart would repeat. */
  | { readonly type: 'permanent-failure' };

/** Names of environment variables: TONY_TASK_FILE, and single values for shell scripts and programs in other languages. */
export const TASK_ENVIRONMENT = {
  taskFile: TASK_FILE_VARIABLE,
  applicationId: 'TONY_APPLICATION_ID',
  role: 'TONY_ROLE',
  index: 'TONY_INDEX',
  rank: 'TONY_RANK',
  worldSize: 'TONY_WORLD_SIZE',
  generation: 'TONY_GENERATION',
  checkpointDir: 'TONY_CHECKPOINT_DIR',
} as const;
