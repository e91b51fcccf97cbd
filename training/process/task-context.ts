import { type Strategy, TASK_FILE_VARIABLE } from '../../conf/job.ts';

/**
 * The executor's description of the task for the user's program. It is a JSON file (mode 0600); the variable TONY_TASK_FILE contains its
 * path.
 */
export interface TaskContext {
  readonly version: 1;
  readonly applicationId: string;
  readonly jobName: string;
  readonly role: string;
  readonly index: number;
  /** The minimum number of tasks that the role requires. */
  readonly roleSize: number;
  /** The task's number within the gang; null for tasks without a rank, such as evaluators and parameter servers. */
  readonly rank: number | null;
  readonly worldSize: number;
  /** The number of times that the gang has been formed; 1 for the first generation. */
  readonly generation: number;
  readonly members: readonly Member[];
  /** The bound socket that this process inherits: its file descriptor and its address. */
  readonly listener: { readonly fd: number; readonly host: string; readonly port: number } | null;
  /** The key of the ring's mutual authentication, in base64. */
  readonly ringKey: string;
  readonly strategy: Strategy;
  /** The addresses of the parameter servers, by index; empty unless the strategy is `parameter-server`. This task may be one of them. */
  readonly parameterServers: readonly { readonly host: string; readonly port: number }[];
  readonly checkpoint: { readonly dir: string; readonly everySteps: number; readonly keep: number };
  readonly summaryDir: string;
  /** The job's folder for its results. */
  readonly outputDir: string;
  /** Input folders by name, as URIs. */
  readonly data: Readonly<Record<string, string>>;
  readonly user: string;
  /** Hadoop properties for reading and writing hdfs://; null in local mode. */
  readonly hadoop: Readonly<Record<string, string>> | null;
  /** The file to which the program appends one JSON object per line (see Report) for the executor to read. */
  readonly reportFile: string;
  /**
   * The file that the executor creates when the program must store a checkpoint at once, because YARN is about to preempt containers of the
   * job. The program deletes the file when it takes the checkpoint. null if the task receives no such orders.
   */
  readonly checkpointOrder: string | null;
  /**
   * The folder of the Unix socket on which the executor accepts requests to the ApplicationMaster (see `Services`); null if the task has no
   * services.
   */
  readonly services: string | null;
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
  | { readonly type: 'progress'; readonly step: number; readonly metrics?: Readonly<Record<string, number>> }
  | { readonly type: 'checkpoint'; readonly step: number }
  | { readonly type: 'peer-lost'; readonly rank: number }
  /** A message to the user. A newer notice with the same `about` replaces it. */
  | { readonly type: 'notice'; readonly message: string; readonly about?: string }
  /** Training ends with this step, before its last epoch. Rank 0 reports it once. */
  | { readonly type: 'early-end'; readonly step: number; readonly reason: string }
  /** The phase has taken its last step; only its final checkpoint remains. */
  | { readonly type: 'last-step'; readonly step: number };

/** The environment variables of a program: TONY_TASK_FILE, and plain values for shell scripts and other languages. */
export const TASK_ENVIRONMENT = {
  taskFile: TASK_FILE_VARIABLE,
  applicationId: 'TONY_APPLICATION_ID',
  role: 'TONY_ROLE',
  index: 'TONY_INDEX',
  rank: 'TONY_RANK',
  worldSize: 'TONY_WORLD_SIZE',
  generation: 'TONY_GENERATION',
} as const;
