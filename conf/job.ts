import type { Acl } from '../hadoop/yarn/acl.ts';
import type { LocalResource } from '../hadoop/yarn/local-resource.ts';
import type { FrameworkName } from './frameworks/names.ts';
import type { PythonEnvironment } from './python.ts';
import type { ShippedFile } from './shipped-files.ts';
import type { DockerContainer } from './values/docker.ts';

/** Validated job. All defaults are set, memory is in MiB, and durations are in ms. */
export interface Job {
  readonly name: string;
  readonly queue: string;
  /** Absolute path of the folder that contains the user's code, or null if the job has no source. */
  readonly source: { readonly path: string; readonly exclude: readonly string[] } | null;
  /** Framework that the job's programs use. All programs receive the TONY_* variables. */
  readonly framework: FrameworkName;
  /**
   * Number of processes per task in roles with ranks, if the framework can run several. `auto` means one process per GPU, and at least one
   * process.
   */
  readonly processesPerTask: number | 'auto';
  /**
   * Source of Node.js and TensorFlow.js in containers. `default` is the archive that `tony-ts runtime build` creates, and `gpu` is the
   * archive that `tony-ts runtime build --gpu` creates. `system` is the installation on the nodes. Any other value is the URI of a runtime
   * archive.
   */
  readonly runtime: string;
  /** Python installation that the programs use. */
  readonly python: PythonEnvironment;
  /** Input folders, keyed by name. tony-ts uploads local folders. Programs read folders on HDFS and in object stores directly. */
  readonly data: Readonly<Record<string, string>>;
  /** Files and archives for the programs of all roles. The names of the job's files must differ from the names of each role's own files. */
  readonly files: readonly ShippedFile[];
  readonly env: Readonly<Record<string, string>>;
  /** Roles in the same order as in job.yaml. YARN containers are assigned to roles in this order. */
  readonly roles: readonly Role[];
  /**
   * Determines when the job succeeds. With `all`, every tracked task must exit with code 0. With `chief`, the chief's exit code determines
   * the result. With `ended`, all tracked tasks must have ended, and the chief's exit code determines the result.
   */
  readonly successPolicy: 'all' | 'chief' | 'ended';
  /** `maxRestarts` limits the restarts after charged failures of all tasks together. Null means no limit. */
  readonly restart: { readonly maxRestarts: number | null };
  readonly gang: { readonly timeoutMs: number };
  readonly heartbeat: { readonly intervalMs: number; readonly missed: number };
  readonly checkpoint: {
    readonly dir: string | null;
    /** Number of steps between checkpoints, or null if only the time counts. */
    readonly everySteps: number | null;
    /** Time between checkpoints in ms, or null if only the steps count. */
    readonly everyMs: number | null;
    readonly keep: number;
    /**
     * Folder that the executor synchronizes with the job's checkpoints, relative to the program's working directory. Null if job.yaml sets
     * none.
     */
    readonly sync: string | null;
  };
  /** Settings for TensorBoard. If `serve` is true, tony-ts adds a sidecar role that runs TensorBoard. */
  readonly tensorboard: { readonly logdir: string | null; readonly serve: boolean; readonly resources: OwnResources };
  readonly strategy: Strategy;
  /** How the job's programs exchange data. */
  readonly wire: WireSettings;
  /** Time limit for the whole job in ms, or null for no limit. */
  readonly timeoutMs: number | null;
  readonly acls: { readonly view: Acl; readonly modify: Acl };
  /** Keytab with which the ApplicationMaster obtains new delegation tokens, or null if the job has no keytab. */
  readonly kerberos: KerberosKeytab | null;
  /** Whether the job's user may open sessions with running tasks. */
  readonly remoteAccess: boolean;
  readonly master: Master;
  /** YARN priority within the queue. YARN starts jobs with higher numbers first. */
  readonly priority: number;
  readonly tags: readonly string[];
}

export interface KerberosKeytab {
  /** Absolute path of the keytab on the submitting machine. */
  readonly keytab: string;
  /** Principal of the keytab, or null to use the principal from the user's ticket. */
  readonly principal: string | null;
}

/** Resources of a container that tony-ts itself needs. */
export interface OwnResources {
  readonly memoryMb: number;
  readonly vcores: number;
}

export interface Master {
  readonly resources: OwnResources;
  readonly nodeLabel: string | null;
  /** Docker container for the ApplicationMaster, or null if it runs directly on the node. */
  readonly docker: DockerContainer | null;
  readonly env: Readonly<Record<string, string>>;
  readonly logLevel: LogLevel;
  /** Period in ms within which YARN counts failed attempts of the ApplicationMaster. If null, YARN counts all failed attempts. */
  readonly failureWindowMs: number | null;
  /** Time in ms after which `submit` kills the job if the ApplicationMaster has not started, or null for no limit. */
  readonly startTimeoutMs: number | null;
}

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/**
 * How workers share the weights. With `all-reduce`, workers average their gradients in every step. With `parameter-server`, the tasks of one role store the weights. `staleness` is the
 * maximum number of steps by which a worker may be ahead of the slowest worker, or null for no limit.
 */
export type Strategy = { readonly type: 'all-reduce' } | { readonly type: 'parameter-server'; readonly staleness: number | null };

/** `dtype` is the number format of gradients on the network with strategy `all-reduce`. Sums are always computed in float32. */
export interface WireSettings {
  readonly dtype: (typeof WIRE_DTYPES)[number];
  readonly security: WireSecurity;
}

export const WIRE_DTYPES = ['float32', 'float16'] as const;

/**
 * How TCP connections between a job's programs are protected. In every mode, both ends authenticate each other when they connect. `none`
 * does not protect the data that follows. With `authenticated`, the receiver detects modified, replayed, removed and injected data.
 * `encrypted` also ensures that only the two ends can read the data.
 */
export type WireSecurity = (typeof WIRE_SECURITY)[number];

export const WIRE_SECURITY = ['none', 'authenticated', 'encrypted'] as const;

/**
 * How the tasks of a role take part in a job.
 * - `gang`: each task has a rank. The tasks start together and restart together. The job waits for them, and fails if one of them fails.
 * - `independent`: the tasks have no rank, and each restarts alone. The job waits for them, and fails if one of them fails.
 * - `service`: the job does not wait for the tasks, but fails if one of them fails. Parameter servers are services.
 * - `sidecar`: the job does not wait for the tasks, and ignores their failures.
 */
export type RoleKind = (typeof ROLE_KINDS)[number];

export const ROLE_KINDS = ['gang', 'independent', 'service', 'sidecar'] as const;

/** Returns true if the job waits for the role's tasks. */
export function isTracked({ kind }: Pick<Role, 'kind'>): boolean {
  return kind === 'gang' || kind === 'independent';
}

export interface Role {
  readonly name: string;
  /** Minimum number of tasks. */
  readonly instances: number;
  /** Maximum number of tasks. In elastic roles, this number is greater than `instances`. */
  readonly maxInstances: number;
  readonly resources: {
    readonly memoryMb: number;
    readonly vcores: number;
    readonly gpus: number;
    readonly other: Readonly<Record<string, number>>;
  };
  /** Shell command that `bash -c` runs in a copy of the source folder. */
  readonly command: string;
  /** Files and archives for this role's programs, in addition to the job's files and archives. */
  readonly files: readonly ShippedFile[];
  readonly env: Readonly<Record<string, string>>;
  readonly nodeLabel: string | null;
  /** Docker container for the tasks, or null if the tasks run directly on the nodes. */
  readonly docker: DockerContainer | null;
  readonly restart: {
    readonly policy: 'never' | 'on-failure';
    /** Maximum number of restarts of one task after failures that the cluster has not caused. */
    readonly maxRestarts: number;
    /** Exit codes after which the task restarts. If null, all codes except 0, but not after errors that each run would repeat. */
    readonly onExitCodes: readonly number[] | null;
  };
  /** Time limit in ms for each run of a task's program, or null for no limit. */
  readonly timeoutMs: number | null;
  /** Time in ms between SIGTERM and SIGKILL when tony-ts ends a program. */
  readonly gracePeriodMs: number;
  /** Conditions that other roles must meet before the job requests containers for this role. */
  readonly after: readonly RoleCondition[];
  /** Rule that this role's tasks must end soon after other roles have ended, or null if there is no such rule. */
  readonly endAfter: EndAfter | null;
  readonly kind: RoleKind;
  /** Whether task 0 of this role is the chief. This is true for exactly one role in each job, which is tracked. */
  readonly chief: boolean;
  /**
   * Whether this role's tasks store the weights for the `parameter-server` strategy. These tasks have no rank, but every generation
   * includes all of them.
   */
  readonly servesParameters: boolean;
  /**
   * Whether this role's tasks use only spare capacity, and the job does without them if need be. They request containers once all other
   * tasks run, give them up when another task waits for one, restart without limit, and take part in nothing. Only the role that tony-ts
   * adds for TensorBoard is spare.
   */
  readonly spare: boolean;
}

/**
 * State that another role must reach. With `running`, every task of that role is running or has succeeded. With `succeeded`, every task of
 * that role has succeeded.
 */
export interface RoleCondition {
  readonly role: string;
  readonly state: 'running' | 'succeeded';
}

export interface EndAfter {
  readonly roles: readonly string[];
  /** Time in ms for which the tasks may keep running after all tasks of `roles` have ended. */
  readonly timeoutMs: number;
  /** What happens after this time. With `stop`, tony-ts stops the tasks, which does not count as a failure. With `fail`, the job fails. */
  readonly late: 'stop' | 'fail';
}

export const APPLICATION_TYPE = 'TONY';

/** Name of the role that tony-ts adds when job.yaml sets `tensorboard`. */
export const TENSORBOARD_ROLE = 'tensorboard';

/**
 * Environment variable that contains the path of the task file. The training library reads the task's rank, peers and settings from this
 * file.
 */
export const TASK_FILE_VARIABLE = 'TONY_TASK_FILE';

/** Names of files and folders in a container's working directory. Each container contains only the folders that it needs. */
export const CONTAINER_LAYOUT = {
  job: 'job.json',
  /** Folder with application-master.mjs, task-executor.mjs, training.mjs and register.mjs. */
  bundles: 'tony',
  /** Folder with bin/node and node_modules. */
  runtime: 'runtime',
  /** Folder that contains the user's code. YARN shares the folder between containers, so each program runs in its own copy. */
  source: 'source',
  /** Folder in which the user's program has one working directory per generation. */
  program: 'program',
  /** Folder for the temporary files of the user's program. YARN creates it in every container. */
  temporary: 'tmp',
  /** Folder that contains TensorBoard's Python packages. */
  tensorboard: 'tensorboard',
  /** Folder that contains the Python environment specified by `python` in job.yaml. YARN shares the folder between containers. */
  environment: 'environment',
  /** Folder with the commands and settings that a container needs to use a shared Python environment. */
  virtualEnvironment: 'venv',
  /** Folder that contains the `tony` Python package, which is part of the bundles. Each container has its own copy. */
  python: 'python',
  /**
   * Folder that contains the files and archives that job.yaml lists. The working directory of each program contains a link to each of them.
   */
  files: 'files',
  /** The job's keytab. Only the ApplicationMaster's container contains it. */
  keytab: 'keytab',
  /** Folder for temporary files of the user's program. */
  scratch: 'scratch',
  /** Home folder of the user's program. It is used if the user cannot write to the container's home folder. */
  home: 'home',
} as const;

/**
 * Argument with which the bundles of the ApplicationMaster and the executor take part in `tony-ts doctor --probe` instead of a job. probe.sh
 * contains a copy.
 */
export const PROBE_FLAG = '--probe';

export const CREDENTIALS = {
  /** 32 random bytes from which the other secrets are derived. Only the ApplicationMaster receives this entry. */
  jobSecret: 'tony.job',
  /**
   * The job's self-signed certificate (PEM). Both ends of every gRPC connection present this certificate and accept no other certificate.
   */
  certificate: 'tony.certificate',
  privateKey: 'tony.key',
  /** SHA-256 digest of the submitted job.json. Only the ApplicationMaster receives this entry. */
  jobDigest: 'tony.job-digest',
  /** Key with which the tasks of an all-reduce ring authenticate each other. Only executors receive this entry. */
  ringKey: 'tony.ring',
  /** Proof of the container's identity. Only executors receive this entry. */
  containerProof: 'tony.container',
  /** Object stores and their access keys, as JobConnections. Only jobs that contain an s3:// URI receive this entry. */
  s3: 'tony.s3',
} as const;

/** Content of job.json, from which the ApplicationMaster and the executors read the submitted job. Does not contain secrets. */
export interface FrozenJob {
  readonly version: 1;
  readonly jobId: string;
  readonly user: string;
  /** Submission time in ms since the epoch. */
  readonly submittedAt: number;
  readonly job: Job;
  /** URI of the folder that contains the job's state and the ApplicationMaster's address. The folder is removed when the job ends. */
  readonly staging: string;
  /**
   * URI of the history folder, which is kept after the job ends. It contains job.json, events, metrics and final.json. If job.yaml does not
   * set `tensorboard.logdir`, it also contains the summaries.
   */
  readonly history: string;
  /** Whether the history folder's group may read the history. */
  readonly historyShared: boolean;
  /** URL of the job's pages on the history server, or null if there is no history server. */
  readonly historyUrl: string | null;
  /** URI. */
  readonly checkpointDir: string;
  readonly summaryDir: string;
  /** URI of the folder for the job's results, which is kept after the job ends. */
  readonly outputDir: string;
  readonly data: Readonly<Record<string, string>>;
  /** Principal of the keytab in the ApplicationMaster's container, or null if the job has no keytab. */
  readonly principal: string | null;
  /** Files and archives that every executor container needs. */
  readonly resources: readonly LocalResource[];
  /** Additional files and archives for a role's containers, keyed by role name. */
  readonly roleResources: Readonly<Record<string, readonly LocalResource[]>>;
  /** URIs of the file systems and HttpFS gateways from which the job needs delegation tokens. Empty for a local job. */
  readonly fileSystems: readonly string[];
  /** Hashes of the entries in the user's cache that the job uses. `cache prune` keeps them while the job may be running. */
  readonly cacheEntries: readonly string[];
  readonly cluster: YarnCluster | LocalCluster;
}

export interface YarnCluster {
  readonly kind: 'yarn';
  /** Hadoop configuration properties that the ApplicationMaster, the executors and the training library need. */
  readonly hadoop: Readonly<Record<string, string>>;
  /** Maximum time in ms that YARN takes to replace a lost ApplicationMaster. Undefined if the ResourceManager does not report this time. */
  readonly masterReplacementMs?: number | undefined;
}

export interface LocalCluster {
  readonly kind: 'local';
  /** Absolute path of the folder that contains a working directory and a log directory for each container. */
  readonly directory: string;
}
