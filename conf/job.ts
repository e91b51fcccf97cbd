import type { DockerContainer } from './values/docker.ts';

/** A resolved job, with all defaults and with converted units. */
export interface Job {
  readonly name: string;
  readonly queue: string;
  /** The folder with the user's code, absolute on the submitting machine; null when the job has no source. */
  readonly source: { readonly path: string; readonly exclude: readonly string[] } | null;
  /** `tfjs`: programs can import TensorFlow.js. `none`: tony-ts does not ship TensorFlow.js. TONY_* variables are set in both cases. */
  readonly framework: 'tfjs' | 'none';
  /**
   * The origin of Node.js and TensorFlow.js. `default`: the archive that `tony-ts runtime build` builds. `gpu`: the archive that `tony-ts
   * runtime build --gpu` builds. `system`: the installation on the nodes. Any other value: the URI of such an archive.
   */
  readonly runtime: string;
  /** Input folders by name. Paths on the submitting machine are uploaded; hdfs:// URIs are read in place. */
  readonly data: Readonly<Record<string, string>>;
  readonly env: Readonly<Record<string, string>>;
  /** In the order of job.yaml: earlier roles receive their containers first. */
  readonly roles: readonly Role[];
  /** `all`: every tracked task must exit with code 0. `chief`: the exit code of the chief decides. */
  readonly success: 'all' | 'chief';
  readonly gang: { readonly timeoutMs: number };
  readonly heartbeat: { readonly intervalMs: number; readonly missed: number };
  readonly checkpoint: { readonly dir: string | null; readonly everySteps: number; readonly keep: number };
  /** `serve`: runs TensorBoard with the job, in an additional sidecar role. */
  readonly tensorboard: { readonly logdir: string | null; readonly serve: boolean; readonly memoryMb: number };
  readonly strategy: Strategy;
  /** Time limit for the whole job; null for none. */
  readonly timeoutMs: number | null;
  readonly acls: { readonly view: Acl; readonly modify: Acl };
  readonly master: Master;
  /** YARN priority among the applications of the queue; YARN starts jobs with a higher number first. */
  readonly priority: number;
  readonly tags: readonly string[];
}

/** The ApplicationMaster: its container and its behaviour. */
export interface Master {
  readonly memoryMb: number;
  readonly vcores: number;
  readonly nodeLabel: string | null;
  /** null: runs directly on the node. */
  readonly docker: DockerContainer | null;
  readonly env: Readonly<Record<string, string>>;
  readonly logLevel: LogLevel;
  /** YARN counts only failures of the ApplicationMaster within this time (ms) towards the maximum of attempts; null counts all. */
  readonly failureWindowMs: number | null;
  /** How long `submit` waits for the ApplicationMaster to start (ms) before it kills the job; null for no limit. */
  readonly startTimeoutMs: number | null;
}

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

export interface Acl {
  readonly users: readonly string[];
  readonly groups: readonly string[];
}

/**
 * How workers agree on the weights. `all-reduce`: gradients are averaged at each step, sent as numbers of type `wire` and summed as
 * float32. `parameter-server`: the tasks of the serving role hold the weights; a worker may be up to `staleness` steps ahead of the slowest
 * worker, or any number of steps if `staleness` is null (asynchronous).
 */
export type Strategy =
  | { readonly type: 'all-reduce'; readonly wire: 'float32' | 'float16' }
  | { readonly type: 'parameter-server'; readonly staleness: number | null };

export interface Role {
  readonly name: string;
  /** Number of tasks that the job requires. */
  readonly instances: number;
  /** Maximum number of tasks, used when the cluster has room; equals `instances` unless the role is elastic. */
  readonly maxInstances: number;
  readonly resources: {
    readonly memoryMb: number;
    readonly vcores: number;
    readonly gpus: number;
    /** Other YARN resource types by name, e.g. `yarn.io/fpga`. */
    readonly other: Readonly<Record<string, number>>;
  };
  /** Run by `bash -c` in a copy of the source folder. */
  readonly command: string;
  readonly env: Readonly<Record<string, string>>;
  readonly nodeLabel: string | null;
  /** null: the tasks run directly on their nodes. */
  readonly docker: DockerContainer | null;
  readonly restart: { readonly policy: 'never' | 'on-failure'; readonly maxRestarts: number };
  /**
   * How the tasks of this role affect the job. `tracked`: the job waits for them and fails with them. `untracked`: the job does not wait for
   * them, but fails with them (parameter servers). `sidecar`: the job neither waits for them nor fails with them.
   */
  readonly tracking: 'tracked' | 'untracked' | 'sidecar';
  /** Task 0 of this role is the chief. True for exactly one role of a job. */
  readonly chief: boolean;
  /** Each task of this role has a rank, takes part in all-reduce, and belongs to the gang. */
  readonly ranked: boolean;
  /** The tasks of this role hold the weights (strategy `parameter-server`). They have no rank, but every generation includes all of them. */
  readonly servesParameters: boolean;
}

/** A file or archive that YARN localises into a container's working directory under `name`. */
export interface Resource {
  readonly name: string;
  readonly uri: string;
  readonly type: 'archive' | 'file';
  /** Who shares the copy on a node. `public`: all users. `private`: all applications of the user. `application`: only this application. */
  readonly visibility: 'public' | 'private' | 'application';
  readonly size: number;
  /** Modification time, ms. YARN rejects a file that was modified after the submission. */
  readonly timestamp: number;
}

/** YARN's application type of tony-ts applications. */
export const APPLICATION_TYPE = 'TONY';

/** The name of the role that tony-ts adds when job.yaml sets `tensorboard`. */
export const TENSORBOARD_ROLE = 'tensorboard';

/** The environment variable with the path of the task file, from which the training library reads its rank, peers and settings. */
export const TASK_FILE_VARIABLE = 'TONY_TASK_FILE';

/** Names in a container's working directory. Folders that the container does not need are absent. */
export const CONTAINER_LAYOUT = {
  job: 'job.json',
  /** Holds application-master.mjs, task-executor.mjs, training.mjs and register.mjs. */
  bundles: 'tony',
  /** bin/node and node_modules. */
  runtime: 'runtime',
  /** The user's source folder as localised: a link into a cache that several containers share. Programs run in a copy. */
  source: 'source',
  /** Holds the working directory of the user's program, whose name is the generation. */
  program: 'program',
  /** The Python packages of TensorBoard; only in containers of the TensorBoard role. */
  tensorboard: 'tensorboard',
  /** Local disk space for the user's program while it runs. */
  scratch: 'scratch',
} as const;

/** Names of the entries in a container's credentials file. */
export const CREDENTIALS = {
  /** AM only: 32 random bytes from which the other secrets are derived. */
  jobSecret: 'tony.job',
  /** PEM; one self-signed certificate per job. Both ends of every gRPC connection present and pin it. */
  certificate: 'tony.certificate',
  privateKey: 'tony.key',
  /** AM only: SHA-256 of job.json as it was submitted. */
  jobDigest: 'tony.job-digest',
  /** Executors only: key for the mutual authentication of the ring. */
  ringKey: 'tony.ring',
  /** Executors only: proves the identity of the container. */
  containerProof: 'tony.container',
} as const;

/** The content of job.json: the job as submitted. The ApplicationMaster and the executors read it. It contains no secrets. */
export interface FrozenJob {
  readonly version: 1;
  readonly applicationId: string;
  readonly user: string;
  /** ms since the epoch. */
  readonly submittedAt: number;
  readonly job: Job;
  /** URI of the folder with the job's state and the AM's address; it is removed when the job ends. */
  readonly staging: string;
  /**
   * URI of the history, which remains after the job ends: job.json, events, metrics, final.json, and the summaries unless job.yaml sets
   * `tensorboard.logdir`.
   */
  readonly history: string;
  /** True if the group of the history folder may read the history. */
  readonly historyShared: boolean;
  /** The URL of the job's pages after the job ends; null without a history server. */
  readonly historyUrl: string | null;
  /** URIs. */
  readonly checkpointDir: string;
  readonly summaryDir: string;
  /** URI of the folder for the job's results; it remains after the job ends. */
  readonly outputDir: string;
  readonly data: Readonly<Record<string, string>>;
  /** The resources of every executor's container. */
  readonly resources: readonly Resource[];
  /** Additional resources for the containers of one role, by role name. */
  readonly roleResources: Readonly<Record<string, readonly Resource[]>>;
  readonly cluster: YarnCluster | LocalCluster;
}

export interface YarnCluster {
  readonly kind: 'yarn';
  /** The properties of the Hadoop configuration that the AM, the executors and training need. */
  readonly hadoop: Readonly<Record<string, string>>;
}

export interface LocalCluster {
  readonly kind: 'local';
  /** Absolute path under which each container gets a working directory and a log directory. */
  readonly directory: string;
}
