/**
 * Every failure that a person may see has a code. The table says how a process that ends with it exits
 * (1 the job failed, 2 the request was wrong, 3 the cluster could not be reached, 130 interrupted) and, where it is always the same, what to do next.
 */
export const ERROR_CODES = {
  JOB_INVALID: { exit: 2, hint: 'Correct the lines named above and submit again.' },
  SITE_INVALID: { exit: 2, hint: 'The admin of the cluster keeps this file; correct the lines named above.' },
  QUOTA_EXCEEDED: { exit: 2, hint: 'Ask for less, or ask the admin of the cluster; tony-ts quotas show tells all limits.' },
  FINAL_VALUES: { exit: 2, hint: 'Give loadJob the site of the cluster: loadJob(path, { site: await siteFor(options) }).' },
  LISTEN_FAILED: { exit: 2, hint: 'Name another port with --port, or another address of this machine with --listen.' },
  HISTORY_UNKNOWN: {
    exit: 2,
    hint: 'Check the id with tony-ts history; old histories are pruned, and a job that has never started leaves none.',
  },
  SITE_UNREADABLE: { exit: 2, hint: 'The admin of the cluster keeps this file: everybody has to be able to read it.' },
  HISTORY_UNWRITABLE: {
    exit: 2,
    hint: 'Ask the admin of the cluster: the folder that history.dir of tony-site.yaml names has to be there, with mode 1777.',
  },
  JOB_UNREADABLE: { exit: 2, hint: 'Check the path given to --conf; tony-ts init writes a new one.' },
  SOURCE_MISSING: { exit: 2, hint: 'Correct `source` (or `data`) in job.yaml; it is relative to the folder of job.yaml.' },
  SOURCE_UNREADABLE: { exit: 2, hint: 'Make it readable, or name it in .tonyignore.' },
  SOURCE_UNSAFE: { exit: 2, hint: 'Put a copy in its place, or name it in .tonyignore.' },
  STAGING_UNWRITABLE: { exit: 2, hint: 'Ask for write access to it, or name another place with --staging.' },
  APPLICATION_UNKNOWN: { exit: 2, hint: 'Check the id; the ResourceManager forgets old applications, local jobs are pruned.' },
  BUNDLES_MISSING: { exit: 2, hint: 'Run npm run build in the folder of tony-ts.' },
  KILL_FAILED: { exit: 1, hint: 'Try again.' },
  CLUSTER_SECURE: { exit: 2, hint: 'Use a cluster without Kerberos, or run the job with --local.' },
  RUNTIME_MISSING: { exit: 2, hint: 'Correct `runtime` in job.yaml; tony-ts runtime build makes such an archive.' },
  JOB_TOO_LARGE: { exit: 2, hint: 'Change what is named above in job.yaml; tony-ts submit --dry-run shows what would be asked for.' },
  INTERRUPTED: { exit: 130, hint: '' },
  TASK_UNKNOWN: { exit: 2, hint: 'Name a task as ROLE:INDEX.' },
  USAGE: { exit: 2, hint: 'See tony-ts --help.' },
  NO_HADOOP_CONF: {
    exit: 2,
    hint: 'Set HADOOP_CONF_DIR to the folder with core-site.xml and yarn-site.xml, or run the job on this machine with --local.',
  },
  HADOOP_CONF_INVALID: { exit: 2, hint: 'Correct the Hadoop configuration named above.' },
  RM_UNREACHABLE: {
    exit: 3,
    hint: 'Check that the ResourceManager runs, and that yarn.resourcemanager.webapp.address (or yarn.resourcemanager.hostname) in yarn-site.xml names it.',
  },
  RM_REFUSED: { exit: 2, hint: 'Correct what the ResourceManager objects to and try again.' },
  APPLICATION_NOT_FOUND: {
    exit: 2,
    hint: 'Check the application id; `yarn application -list -appStates ALL` shows those that the ResourceManager still knows.',
  },
  HDFS_UNREACHABLE: {
    exit: 3,
    hint: 'Check that the NameNode runs, and that fs.defaultFS and dfs.namenode.http-address name it.',
  },
  NOT_FOUND: { exit: 2, hint: 'Check the path.' },
  ALREADY_EXISTS: { exit: 2, hint: 'Choose another path, or remove what is there.' },
  ACCESS_DENIED: { exit: 2, hint: 'Ask for access, or name a place that you may use.' },
  STORAGE_FULL: { exit: 2, hint: 'Free space or have the quota raised.' },
  STORAGE_REFUSED: { exit: 2, hint: 'Check the path and what the file system objects to.' },
  LOGS_UNAVAILABLE: { exit: 2, hint: 'Logs of a job that has just ended appear when their aggregation is done; try again in a moment.' },
  CREDENTIALS_INVALID: { exit: 1, hint: 'The file comes from YARN or from the client; submit the job again.' },
  RPC_UNREACHABLE: { exit: 3, hint: 'Check that the daemon named above runs and can be reached from here.' },
  RPC_TIMEOUT: { exit: 3, hint: 'The daemon named above is overloaded or hangs; its log says more.' },
  RPC_PROTOCOL: { exit: 3, hint: 'Check that host and port above are those of a Hadoop RPC service, of Hadoop 3.' },
  RPC_REFUSED: { exit: 3, hint: 'The daemon does not accept this token: check that it belongs to the cluster that issued it.' },
  RPC_FAILED: { exit: 1, hint: 'The log of the daemon named above says more.' },
  RPC_CLOSED: { exit: 1, hint: 'The connection was closed on this side while an answer was awaited.' },
  ATTEMPT_FENCED: { exit: 1, hint: 'The application was killed, or another attempt of its ApplicationMaster has taken over.' },
  RESOURCE_UNKNOWN: {
    exit: 2,
    hint: 'Ask for a resource type that the cluster has, or have it configured in resource-types.xml of the ResourceManager.',
  },
  RUNTIME_UNSUPPORTED: {
    exit: 2,
    hint: 'Run `tony-ts runtime build --to FILE` on a Linux machine and name the file as `runtime` in job.yaml, or use `runtime: system`.',
  },
  RUNTIME_TOOL_MISSING: { exit: 2, hint: 'Install it on this machine (nodes of the cluster need nothing), and try again.' },
  RUNTIME_DOWNLOAD_FAILED: {
    exit: 3,
    hint: 'Check that npm and pip reach their package registries here (`npm ping`, `python3 -m pip download six`): their own settings for mirrors and proxies are used.',
  },
  RUNTIME_HASH_MISMATCH: {
    exit: 2,
    hint: 'The registry (or a mirror, or a cache on the way) delivers something else than was published: do not use it. `npm cache clean --force` and `python3 -m pip cache purge` empty the local caches.',
  },
  RUNTIME_COMPILE_FAILED: { exit: 2, hint: 'A C++17 compiler is needed (g++ 8 or newer; CXX names another one).' },
  RUNTIME_NOT_BUILT: { exit: 2, hint: 'Build it with `tony-ts runtime build`.' },
  RUNTIME_CACHE_UNWRITABLE: {
    exit: 2,
    hint: 'A build needs 2 GB of space, and write access; TONY_CACHE_DIR (or XDG_CACHE_HOME) names another folder.',
  },
  RUNTIME_BROKEN: { exit: 2, hint: 'Build it anew with `tony-ts runtime build --force`.' },
  PEER_LOST: {
    exit: 1,
    hint: 'Training goes on from the newest checkpoint when the lost task is replaced; its own log says why it ended.',
  },
  RING_JOIN_FAILED: {
    exit: 1,
    hint: 'Check that every ranked role calls join(), and that containers may reach each other on any port.',
  },
  RING_MISMATCH: {
    exit: 1,
    hint: 'Every rank must make the same calls (fit, step, allReduce, barrier) in the same order, with equal lengths.',
  },
  RANKS_DIFFER: {
    exit: 1,
    hint: 'Ranks that start equal stay equal: look for a program that changes weights on some ranks only, and for memory errors of the machine.',
  },
  TASK_FILE_INVALID: { exit: 1, hint: 'TONY_TASK_FILE is set by the executor; unset it to run the program alone.' },
  BACKEND_MISSING: { exit: 1, hint: 'Install @tensorflow/tfjs, or build a runtime with `tony-ts runtime build`.' },
  BACKEND_UNFIT: { exit: 1, hint: 'Use a runtime with the native backend (`tony-ts runtime build`), or set TONY_BACKEND=cpu.' },
  MODEL_INVALID: { exit: 1, hint: 'Correct the model, or what is handed to fit.' },
  DATA_INVALID: { exit: 1, hint: 'Check the data handed to fit and the files it comes from.' },
  SUMMARY_INVALID: { exit: 1, hint: 'Correct what is handed to cluster.summaries.' },
  MODEL_UNREADABLE: { exit: 1, hint: 'Name a folder with a model.json of TensorFlow.js, or that file.' },
  MODEL_NOT_EXPORTABLE: { exit: 1, hint: 'Export it with exportLayersModel, or replace the layer named above.' },
  WARM_START_MISFIT: { exit: 1, hint: 'Compare the names and shapes of both models; { layers } says which are to be taken.' },
  CHECKPOINT_DAMAGED: { exit: 1, hint: 'An older checkpoint is used where there is one.' },
  CHECKPOINT_MISFIT: {
    exit: 1,
    hint: 'The checkpoint is of another model: name another checkpoint.dir in job.yaml, or remove the folder.',
  },
  CHECKPOINT_FENCED: { exit: 1, hint: 'A newer generation of the job has taken over; this process is to end.' },
  CHECKPOINT_FAILED: { exit: 1, hint: 'Check the space, the permissions and the NameNode of the checkpoint folder.' },
  SERVICE_LOST: { exit: 1, hint: "The executor's own log (tony.log of the task) says more; it is replaced when it has died." },
  FEED_ENDED: { exit: 1, hint: 'tony-ts status and tony-ts logs say how the job ended; what it had not taken was not trained on.' },
  FEED_REFUSED: { exit: 2, hint: 'Only the user who submitted a job may feed it.' },
  OUTPUT_MISMATCH: { exit: 1, hint: 'Name another output folder, or remove this one.' },
  TRIAL_FAILED: { exit: 1, hint: 'Correct the trial; what other trials have found is kept, and not computed again.' },
  FUNCTION_INVALID: {
    exit: 2,
    hint: "Export the function from a module of its own, and name it: run(options, { module: new URL('./train.ts', import.meta.url), export: 'train' }).",
  },
  JOB_FAILED: { exit: 1, hint: 'Its logs say more: tony-ts logs with its id.' },
  CONTAINER_INVALID: { exit: 1, hint: 'Only the ApplicationMaster starts executors; submit the job again.' },
  TENSORBOARD_UNAVAILABLE: { exit: 1, hint: "The job's own page has charts of its own; tony-ts logs of the task tensorboard:0 says more." },
  STATE_UNREADABLE: { exit: 1, hint: 'The job starts from the newest checkpoint; its history tells what it had done.' },
  INTERNAL: { exit: 1, hint: 'This is a defect of tony-ts; please report it with the log.' },
} as const satisfies Record<string, { exit: 1 | 2 | 3 | 130; hint: string }>;

export type ErrorCode = keyof typeof ERROR_CODES;

/** The one error class. `message` says what happened, `hint` the next step for the person who reads it. */
export class TonyError extends Error {
  override readonly name = 'TonyError';
  readonly code: ErrorCode;
  readonly hint: string;

  constructor(code: ErrorCode, message: string, options: { hint?: string; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.hint = options.hint ?? ERROR_CODES[code].hint;
  }

  get exitCode(): 1 | 2 | 3 | 130 {
    return ERROR_CODES[this.code].exit;
  }
}

/** The message of anything that was thrown, on one line. */
export function messageOf(thrown: unknown): string {
  const text = thrown instanceof Error ? thrown.message || thrown.name : String(thrown);
  return text.replace(/\s*\n\s*/g, ' ').trim();
}

/** Why a file could not be used, for a sentence that names it: of `ENOENT: no such file or directory, open 'x'` what is in the middle. */
export function fileErrorOf(thrown: unknown): string {
  return messageOf(thrown).replace(/^E[A-Z]+: (.+?), [a-z]+( '.*)?$/, '$1');
}
