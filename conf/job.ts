import type { PythonEnvironment } from './python.ts';
import type { ShippedFile } from './shipped-files.ts';
import type { DockerContainer } from './values/docker.ts';
import type { Framework } from './values/frameworks.ts';

/** A job after validation: all defaults are set, and memory and durations are converted to MiB and ms. */
export interface Job {
  readonly name: string;
  readonly queue: string;
  /** Absolute path of the folder with the user's code; null if the job has no source. */
  readonly source: { readonly path: string; readonly exclude: readonly string[] } | null;
  /**
   * `tfjs`: programs can import TensorFlow.js. `pytorch`, `tensorflow`, `jax` and `horovod`: programs get the variables of that framework.
   * `mpi`: the task with rank 0 runs mpirun. `none`: any other program. All settings provide the TONY_* variables.
   */
  readonly framework: Framework;
  /**
   * Number of processes that each task of a role with ranks runs (frameworks `pytorch`, `horovod` and `mpi`). `auto`: one for each GPU, and
   * at least one.
   */
  readonly processesPerTask: number | 'auto';
  /**
   * Where containers get Node.js and TensorFlow.js. `default`: the archive built by `tony-ts runtime build`. `gpu`: the archive built by
   * `tony-ts runtime build --gpu`. `system`: the installation on the nodes. Any other value is the URI of a runtime archive.
   */
  readonly runtime: string;
  /** The Python of the programs. */
  readonly python: PythonEnvironment;
  /** Input folders by name. tony-ts uploads local paths; programs read URIs on HDFS and in object stores directly. */
  readonly data: Readonly<Record<string, string>>;
  /** Files and archives for the programs of all roles. Within each role, the job's files and the role's own files have different names. */
  readonly files: readonly ShippedFile[];
  readonly env: Readonly<Record<string, string>>;
  /** Roles in the order of job.yaml. YARN containers are assigned to earlier roles first. */
  readonly roles: readonly Role[];
  /** `all`: the job succeeds if every tracked task exits with code 0. `chief`: the exit code of the chief determines the result. */
  readonly success: 'all' | 'chief';
  readonly gang: { readonly timeoutMs: number };
  readonly heartbeat: { readonly intervalMs: number; readonly missed: number };
  readonly checkpoint: {
    readonly dir: string | null;
    readonly everySteps: number;
    readonly keep: number;
    /** Folder that the executor synchronizes with the checkpoints, relative to the program's working directory; null for none. */
    readonly sync: string | null;
  };
  /** `serve`: whether to add a sidecar role that runs TensorBoard. */
  readonly tensorboard: { readonly logdir: string | null; readonly serve: boolean; readonly memoryMb: number };
  readonly strategy: Strategy;
  /** Time limit for the whole job in ms; null for no limit. */
  readonly timeoutMs: number | null;
  readonly acls: { readonly view: Acl; readonly modify: Acl };
  /** A keytab with which the ApplicationMaster obtains new delegation tokens; null if there is none. */
  readonly kerberos: KerberosKeytab | null;
  /** True if the job's user may open sessions with running tasks. */
  readonly remoteAccess: boolean;
  readonly master: Master;
  /** YARN priority within the queue. YARN starts jobs with higher numbers first. */
  readonly priority: number;
  readonly tags: readonly string[];
}

export interface KerberosKeytab {
  /** The keytab file, absolute on the submitting machine. */
  readonly keytab: string;
  /** null: the principal of the user's ticket. */
  readonly principal: string | null;
}

export interface Master {
  readonly memoryMb: number;
  readonly vcores: number;
  readonly nodeLabel: string | null;
  /** null: the ApplicationMaster runs directly on the node. */
  readonly docker: DockerContainer | null;
  readonly env: Readonly<Record<string, string>>;
  readonly logLevel: LogLevel;
  /** Period in ms within which YARN counts failed ApplicationMaster attempts; null counts all failed attempts. */
  readonly failureWindowMs: number | null;
  /** Time in ms that the ApplicationMaster has to start before `submit` kills the job; null for no limit. */
  readonly startTimeoutMs: number | null;
}

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

export interface Acl {
  readonly users: readonly string[];
  readonly groups: readonly string[];
}

/**
 * How workers synchronise the weights. `all-reduce`: workers average their gradients in every step; `wire` is the number type on the
 * network, and sums are float32. `parameter-server`: the tasks of one role store the weights; `staleness` is the maximum number of steps
 * between a worker and the slowest worker, null for no limit.
 */
export type Strategy =
  | { readonly type: 'all-reduce'; readonly wire: 'float32' | 'float16'; readonly wireSecurity: WireSecurity }
  | { readonly type: 'parameter-server'; readonly staleness: number | null; readonly wireSecurity: WireSecurity };

/**
 * How the TCP connections between the programs of a job are protected. In every mode, both ends authenticate when they connect. `none`: the
 * traffic is not protected. `authenticated`: the receiver detects changed, repeated, removed and inserted data. `encrypted`: in addition,
 * only the two ends can read the data.
 */
export type WireSecurity = (typeof WIRE_SECURITY)[number];

export const WIRE_SECURITY = ['none', 'authenticated', 'encrypted'] as const;

export interface Role {
  readonly name: string;
  /** Minimum number of tasks. */
  readonly instances: number;
  /** Maximum number of tasks. It is greater than `instances` only for elastic roles. */
  readonly maxInstances: number;
  readonly resources: {
    readonly memoryMb: number;
    readonly vcores: number;
    readonly gpus: number;
    readonly other: Readonly<Record<string, number>>;
  };
  /** Shell command that `bash -c` runs in a copy of the source folder. */
  readonly command: string;
  /** Files and archives for the programs of this role, in addition to those of the job. */
  readonly files: readonly ShippedFile[];
  readonly env: Readonly<Record<string, string>>;
  readonly nodeLabel: string | null;
  /** null: the tasks run directly on their nodes. */
  readonly docker: DockerContainer | null;
  readonly restart: { readonly policy: 'never' | 'on-failure'; readonly maxRestarts: number };
  /** Exit codes of a program after which its task restarts; null for every exit code except 0. */
  readonly retryOn: readonly number[] | null;
  /** Time limit in ms for each run of a task's program; null for no limit. */
  readonly timeLimitMs: number | null;
  /** Conditions on other roles that must be met before the job requests containers for this role. */
  readonly after: readonly RoleCondition[];
  /** The roles after which the tasks of this role must end; null if there are none. */
  readonly endAfter: EndAfter | null;
  /**
   * How the tasks of this role affect the job result. `tracked`: the job waits for them, and their failure fails the job. `untracked`: the
   * job does not wait for them, but their failure fails the job (parameter servers). `sidecar`: the job neither waits for them nor fails if
   * they fail.
   */
  readonly tracking: 'tracked' | 'untracked' | 'sidecar';
  /** Whether task 0 of this role is the chief. True for exactly one role. */
  readonly chief: boolean;
  /** Whether the tasks of this role belong to the gang: each has a rank and takes part in all-reduce. */
  readonly ranked: boolean;
  /**
   * Whether the tasks of this role store the weights (strategy `parameter-server`). These tasks have no rank, but every generation includes
   * all of them.
   */
  readonly servesParameters: boolean;
}

/** `running`: every task of the role runs or has succeeded. `succeeded`: every task of the role has succeeded. */
export interface RoleCondition {
  readonly role: string;
  readonly state: 'running' | 'succeeded';
}

export interface EndAfter {
  readonly roles: readonly string[];
  /** Time in ms that the tasks may keep running after all `roles` have ended. */
  readonly withinMs: number;
  /** What happens to these tasks. `stop`: tony-ts stops them, and this does not count as a failure. `fail`: the job fails. */
  readonly late: 'stop' | 'fail';
}

/** A file or archive that YARN localises as `name`, a relative path, in the working directory of a container. */
export interface Resource {
  readonly name: string;
  readonly uri: string;
  readonly type: 'archive' | 'file';
  /**
   * Who shares the localised copy on a node. `public`: all users. `private`: all applications of the user. `application`: this application.
   */
  readonly visibility: 'public' | 'private' | 'application';
  readonly size: number;
  /** Modification time in ms. YARN fails the localisation if the file has been modified since the submission. */
  readonly timestamp: number;
}

export const APPLICATION_TYPE = 'TONY';

/** Name of the role that tony-ts adds when job.yaml sets `tensorboard`. */
export const TENSORBOARD_ROLE = 'tensorboard';

/** Environment variable with the path of the task file. The training library reads its rank, peers and settings from this file. */
export const TASK_FILE_VARIABLE = 'TONY_TASK_FILE';

/** File and folder names in the working directory of a container. A container gets only the folders that it needs. */
export const CONTAINER_LAYOUT = {
  job: 'job.json',
  /** Folder with application-master.mjs, task-executor.mjs, training.mjs and register.mjs. */
  bundles: 'tony',
  /** Folder with bin/node and node_modules. */
  runtime: 'runtime',
  /** Folder with the user's code. YARN shares it between containers, so each program runs in its own copy. */
  source: 'source',
  /** Folder with one working directory of the user's program for each generation. */
  program: 'program',
  /** Folder with the Python packages of TensorBoard. */
  tensorboard: 'tensorboard',
  /** Folder with the Python environment of the job; see `python` in job.yaml. YARN shares it between containers. */
  environment: 'environment',
  /** Folder with the commands and settings that make a shared Python environment usable in one container. */
  virtualEnvironment: 'venv',
  /** Folder with the Python package `tony`. It is part of the bundles, and each container gets a copy. */
  python: 'python',
  /** Folder with the files and archives that job.yaml lists. Each program's working directory contains a link to each of them. */
  files: 'files',
  /** The keytab; only in the container of the ApplicationMaster. */
  keytab: 'keytab',
  /** Folder for temporary files of the user's program. */
  scratch: 'scratch',
  /** Home folder of the user's program, if the user cannot write to the container's home folder. */
  home: 'home',
} as const;

export const CREDENTIALS = {
  /** 32 random bytes from which the other secrets are derived. Only the ApplicationMaster has this entry. */
  jobSecret: 'tony.job',
  /** Self-signed certificate of the job (PEM). Both ends of every gRPC connection present this certificate and accept no other. */
  certificate: 'tony.certificate',
  privateKey: 'tony.key',
  /** SHA-256 of the submitted job.json. Only the ApplicationMaster has this entry. */
  jobDigest: 'tony.job-digest',
  /** Key for mutual authentication in the all-reduce ring. Only executors have this entry. */
  ringKey: 'tony.ring',
  /** Proof of the container's identity. Only executors have this entry. */
  containerProof: 'tony.container',
  /** The object stores and their access keys (JobConnections). Only jobs that name an s3:// URI have this entry. */
  s3: 'tony.s3',
} as const;

/** Content of job.json: the submitted job, as the ApplicationMaster and the executors read it. Contains no secrets. */
export interface FrozenJob {
  readonly version: 1;
  readonly applicationId: string;
  readonly user: string;
  /** Time of the submission in ms since the epoch. */
  readonly submittedAt: number;
  readonly job: Job;
  /** URI of the folder with the job's state and the ApplicationMaster's address. The folder is removed when the job ends. */
  readonly staging: string;
  /**
   * URI of the history folder, which is kept after the job ends: job.json, events, metrics, final.json, and summaries unless job.yaml sets
   * `tensorboard.logdir`.
   */
  readonly history: string;
  /** Whether the group of the history folder may read the history. */
  readonly historyShared: boolean;
  /** URL of the job's pages on the history server; null if there is no history server. */
  readonly historyUrl: string | null;
  /** URI. */
  readonly checkpointDir: string;
  readonly summaryDir: string;
  /** URI of the folder for the job's results, which is kept after the job ends. */
  readonly outputDir: string;
  readonly data: Readonly<Record<string, string>>;
  /** The principal of the keytab in the ApplicationMaster's container; null if there is no keytab. */
  readonly principal: string | null;
  /** Files and archives that every executor container needs. */
  readonly resources: readonly Resource[];
  /** Additional files and archives for the containers of a role, by role name. */
  readonly roleResources: Readonly<Record<string, readonly Resource[]>>;
  readonly cluster: YarnCluster | LocalCluster;
}

export interface YarnCluster {
  readonly kind: 'yarn';
  /** Hadoop configuration properties that the ApplicationMaster, the executors and the training library need. */
  readonly hadoop: Readonly<Record<string, string>>;
  /** Maximum time in ms for YARN to replace a lost ApplicationMaster. Undefined if the ResourceManager does not report it. */
  readonly masterReplacementMs?: number | undefined;
}

export interface LocalCluster {
  readonly kind: 'local';
  /** Absolute path of the folder in which each container gets a working directory and a log directory. */
  readonly directory: string;
}
