import { type Strategy, TASK_FILE_VARIABLE } from '../conf/job.ts';

/** What an executor tells the user's program: a 0600 JSON file named by the environment variable TONY_TASK_FILE. */
export interface TaskContext {
  readonly version: 1;
  readonly applicationId: string;
  readonly jobName: string;
  readonly role: string;
  readonly index: number;
  /** How many tasks its role has at least. */
  readonly roleSize: number;
  /** Position among those who train together; null for others (evaluators, parameter servers). */
  readonly rank: number | null;
  readonly worldSize: number;
  /** How often the gang was formed; from 1. */
  readonly generation: number;
  readonly members: readonly Member[];
  /** The bound listening socket that this process inherits (a file descriptor), and its address. */
  readonly listener: { readonly fd: number; readonly host: string; readonly port: number } | null;
  /** base64; key of the ring's mutual challenge. */
  readonly ringKey: string;
  readonly strategy: Strategy;
  /** Where each parameter server listens, by its index; none unless the strategy is `parameter-server`. This task may be one of them. */
  readonly parameterServers: readonly { readonly host: string; readonly port: number }[];
  readonly checkpoint: { readonly dir: string; readonly everySteps: number; readonly keep: number };
  readonly summaryDir: string;
  /** The job's own folder for what it computes. */
  readonly outputDir: string;
  /** Input folders by name, as URIs. */
  readonly data: Readonly<Record<string, string>>;
  readonly user: string;
  /** Hadoop properties for reading and writing hdfs://; null in local mode. */
  readonly hadoop: Readonly<Record<string, string>> | null;
  /** The program appends one JSON object a line (see Report); the executor reads it. */
  readonly reportFile: string;
  /** Folder of the unix socket behind which the executor passes requests on to the ApplicationMaster (see Services); null when there is none. */
  readonly services: string | null;
}

export interface Member {
  readonly role: string;
  readonly index: number;
  readonly rank: number | null;
  readonly host: string;
  readonly port: number;
}

/** One line of the report file. Any program in any language may write them. */
export type Report =
  | { readonly type: 'progress'; readonly step: number; readonly metrics?: Readonly<Record<string, number>> }
  | { readonly type: 'checkpoint'; readonly step: number }
  | { readonly type: 'peer-lost'; readonly rank: number }
  | { readonly type: 'notice'; readonly message: string }
  /** Training ends with this step, before its last epoch: said once, by rank 0. */
  | { readonly type: 'early-end'; readonly step: number; readonly reason: string }
  /** No step is left to be taken: what comes now is the last checkpoint. */
  | { readonly type: 'last-step'; readonly step: number };

/** Plain environment variables beside TONY_TASK_FILE, for shell scripts and other languages. */
export const TASK_ENVIRONMENT = {
  taskFile: TASK_FILE_VARIABLE,
  applicationId: 'TONY_APPLICATION_ID',
  role: 'TONY_ROLE',
  index: 'TONY_INDEX',
  rank: 'TONY_RANK',
  worldSize: 'TONY_WORLD_SIZE',
  generation: 'TONY_GENERATION',
} as const;
