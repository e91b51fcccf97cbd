/** A job as everything below the schema sees it: every default filled in, every unit resolved. */
export interface Job {
  readonly name: string;
  readonly queue: string;
  /** The folder with the user's code, absolute on the submitting machine; null when the command needs none. */
  readonly source: { readonly path: string; readonly exclude: readonly string[] } | null;
  /** What the user's program is told about the cluster: `tfjs` gets TONY_*; `none` the same without a tensor runtime being shipped. */
  readonly framework: 'tfjs' | 'none';
  /**
   * Where Node and TensorFlow.js come from: `default` the archive that `tony-ts runtime build` makes, `gpu` that of
   * `tony-ts runtime build --gpu`, `system` what is installed on the nodes, anything else the URI of such an archive.
   */
  readonly runtime: string;
  /** Input folders by name: paths on the submitting machine are staged by content, hdfs:// URIs are passed on. */
  readonly data: Readonly<Record<string, string>>;
  readonly env: Readonly<Record<string, string>>;
  /** In the order of the file: earlier roles get their containers first. */
  readonly roles: readonly Role[];
  /** `all`: every tracked task must end with 0. `chief`: the chief's end decides. */
  readonly success: 'all' | 'chief';
  readonly gang: { readonly timeoutMs: number };
  readonly heartbeat: { readonly intervalMs: number; readonly missed: number };
  readonly checkpoint: { readonly dir: string | null; readonly everySteps: number; readonly keep: number };
  /** `serve`: a TensorBoard comes with the job, as a role of its own that is never waited for. */
  readonly tensorboard: { readonly logdir: string | null; readonly serve: boolean; readonly memoryMb: number };
  readonly strategy: Strategy;
  /** The whole job's limit; null for none. */
  readonly timeoutMs: number | null;
  readonly acls: { readonly view: Acl; readonly modify: Acl };
  /** The ApplicationMaster's own container. */
  readonly master: { readonly memoryMb: number; readonly vcores: number; readonly nodeLabel: string | null };
  readonly tags: readonly string[];
}

export interface Acl {
  readonly users: readonly string[];
  readonly groups: readonly string[];
}

/**
 * How workers agree on the weights. `all-reduce`: gradients are averaged at each step, sent as numbers of type `wire` and summed as float32.
 * `parameter-server`: the tasks of the role that serves hold the weights; a worker may be up to `staleness` steps ahead of the slowest one,
 * null for any number (asynchronous).
 */
export type Strategy =
  | { readonly type: 'all-reduce'; readonly wire: 'float32' | 'float16' }
  | { readonly type: 'parameter-server'; readonly staleness: number | null };

export interface Role {
  readonly name: string;
  /** Tasks that the job cannot do without. */
  readonly instances: number;
  /** Tasks that it takes when there is room for them; as `instances` unless the role is elastic. */
  readonly maxInstances: number;
  readonly resources: {
    readonly memoryMb: number;
    readonly vcores: number;
    readonly gpus: number;
    /** Other YARN resource types by name, e.g. `yarn.io/fpga`. */
    readonly other: Readonly<Record<string, number>>;
  };
  /** Run by `bash -c` in the source folder. */
  readonly command: string;
  readonly env: Readonly<Record<string, string>>;
  readonly nodeLabel: string | null;
  readonly restart: { readonly policy: 'never' | 'on-failure'; readonly maxRestarts: number };
  /**
   * `tracked`: the job waits for it and fails with it. `untracked`: not waited for, but its failure fails the job (parameter servers).
   * `sidecar`: neither waited for nor missed.
   */
  readonly tracking: 'tracked' | 'untracked' | 'sidecar';
  /** The role whose task 0 is the chief; exactly one role of a job is. */
  readonly chief: boolean;
  /** Its tasks take part in all-reduce: they have a rank, and form a generation together. */
  readonly ranked: boolean;
  /** Its tasks hold the weights (strategy `parameter-server`): they have no rank, but every generation has all of them. */
  readonly servesParameters: boolean;
}

/** A file or archive that is put into a container's working directory under `name`. */
export interface Resource {
  readonly name: string;
  readonly uri: string;
  readonly type: 'archive' | 'file';
  /** `private`: cached on the node for the user; `application`: for this application only. */
  readonly visibility: 'public' | 'private' | 'application';
  readonly size: number;
  /** Modification time, ms: YARN refuses a resource that has changed. */
  readonly timestamp: number;
}

/** What YARN knows applications of tony-ts by. */
export const APPLICATION_TYPE = 'TONY';

/** The role that comes by itself when `tensorboard` is set. */
export const TENSORBOARD_ROLE = 'tensorboard';

/** The environment variable of a task that names the file with all that the task is told. */
export const TASK_FILE_VARIABLE = 'TONY_TASK_FILE';

/** Names in a container's working directory. A folder that is missing was not needed. */
export const CONTAINER_LAYOUT = {
  job: 'job.json',
  /** Holds application-master.mjs, task-executor.mjs, training.mjs and register.mjs. */
  bundles: 'tony',
  /** bin/node and node_modules. */
  runtime: 'runtime',
  /** The user's source folder. */
  source: 'source',
  /** The Python packages of TensorBoard; in the containers of its role only. */
  tensorboard: 'tensorboard',
  /** What the user's program keeps on this machine's disk while it runs. */
  scratch: 'scratch',
} as const;

/** Names of the entries in a container's credentials file. */
export const CREDENTIALS = {
  /** AM only: 32 random bytes from which the others are derived. */
  jobSecret: 'tony.job',
  /** PEM; one self-signed certificate per job, both ends of every gRPC connection present and pin it. */
  certificate: 'tony.certificate',
  privateKey: 'tony.key',
  /** Executors only: key of the ring's mutual challenge. */
  ringKey: 'tony.ring',
  /** Executors only: proves which container this is. */
  containerProof: 'tony.container',
} as const;

/** job.json: what the client froze. Nobody reads job.yaml after this. Holds no secret. */
export interface FrozenJob {
  readonly version: 1;
  readonly applicationId: string;
  readonly user: string;
  /** ms since the epoch. */
  readonly submittedAt: number;
  readonly job: Job;
  /** URI of the folder that goes when the job ends: job state, the AM's address. */
  readonly staging: string;
  /** URI of the folder that stays: job.json, events, metrics, final.json, and the summaries unless job.yaml names another place for them. */
  readonly history: string;
  /** Others than the user read the history: its group may. */
  readonly historyShared: boolean;
  /** Where the job's pages are after its end; null where nobody serves them. */
  readonly historyUrl: string | null;
  /** URIs, resolved from the job and the application id. */
  readonly checkpointDir: string;
  readonly summaryDir: string;
  /** The job's own folder for what it computes; it stays. */
  readonly outputDir: string;
  readonly data: Readonly<Record<string, string>>;
  /** What every executor's container gets. */
  readonly resources: readonly Resource[];
  /** What the containers of one role get besides, by the role's name. */
  readonly roleResources: Readonly<Record<string, readonly Resource[]>>;
  readonly cluster: YarnCluster | LocalCluster;
}

export interface YarnCluster {
  readonly kind: 'yarn';
  /** The properties of the Hadoop configuration that AM, executors and training need. */
  readonly hadoop: Readonly<Record<string, string>>;
}

export interface LocalCluster {
  readonly kind: 'local';
  /** Absolute path under which each container gets a working directory and a log directory. */
  readonly directory: string;
}
