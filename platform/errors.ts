/**
 * Every failure that users can see has a code. For each code, the table gives the exit code of the process (1: the job failed, 2: the
 * request was wrong, 3: the cluster was unreachable, 130: interrupted), the meaning, and the next step if it is always the same.
 */
export const ERROR_CODES = {
  JOB_INVALID: {
    exit: 2,
    means: 'job.yaml (or a --set) has mistakes; all of them are listed, each with its line and column.',
    hint: 'Correct the lines named above and submit again.',
  },
  SITE_INVALID: {
    exit: 2,
    means: 'tony-site.yaml of the cluster has mistakes; all of them are listed.',
    hint: 'The admin of the cluster keeps this file; correct the lines named above.',
  },
  QUOTA_EXCEEDED: {
    exit: 2,
    means: 'The job asks for more than tony-site.yaml allows its roles, user, groups or queue; each limit is listed with what would fit.',
    hint: 'Ask for less, or ask the admin of the cluster; tony-ts quotas show tells all limits.',
  },
  FINAL_VALUES: {
    exit: 2,
    means: 'A program submits a job without the values that tony-site.yaml fixes, since it was read without the site file.',
    hint: 'Give loadJob the site of the cluster: loadJob(path, { site: await siteFor(options) }).',
  },
  LISTEN_FAILED: {
    exit: 2,
    means: 'The history server cannot listen on this address and port: mostly because another process does.',
    hint: 'Name another port with --port, or another address of this machine with --listen.',
  },
  HISTORY_UNKNOWN: {
    exit: 2,
    means:
      'There is no history of such a job where histories are kept; or several users have one, and the cluster no longer knows whose application it was.',
    hint: 'Check the id with tony-ts history; old histories are pruned, and a job that has never started leaves none. tony-ts history show has --user for the user who submitted it.',
  },
  SITE_UNREADABLE: {
    exit: 2,
    means: 'There is a site file, and this user may not read it.',
    hint: 'The admin of the cluster keeps this file: everybody has to be able to read it.',
  },
  HISTORY_UNWRITABLE: {
    exit: 2,
    means: 'The folder for histories that the admin has named is not there, or this user may make no folder in it.',

    hint: 'Ask the admin of the cluster: the folder that history.dir of tony-site.yaml names has to be there, with mode 1777.',
  },
  JOB_UNREADABLE: {
    exit: 2,
    means: 'There is no such job file, or it cannot be read.',
    hint: 'Check the path given to --conf; tony-ts init writes a new one.',
  },
  SOURCE_MISSING: {
    exit: 2,
    means: 'The folder with the code of the job, or data that it names, is not there.',
    hint: 'Correct `source` (or `data`) in job.yaml; it is relative to the folder of job.yaml.',
  },
  SOURCE_UNREADABLE: {
    exit: 2,
    means: 'A file of the code cannot be read, or changed while it was packed.',
    hint: 'Make it readable, or name it in .tonyignore.',
  },
  SOURCE_UNSAFE: {
    exit: 2,
    means: 'The folder with the code holds a link that leads out of it, or something that is neither a file nor a folder.',
    hint: 'Put a copy in its place, or name it in .tonyignore.',
  },
  STAGING_UNWRITABLE: {
    exit: 2,
    means: 'The folder for the files of jobs cannot be written, or belongs to another user.',
    hint: 'Ask for write access to it, or name another place with --staging.',
  },
  FOLDER_UNSAFE: {
    exit: 2,
    means: 'A folder of this machine from which jobs run programs belongs to another user, or other users can write it.',
    hint: 'Take the write permission from the others, or name a folder of your own.',
  },
  APPLICATION_UNKNOWN: {
    exit: 2,
    means: 'Neither the ResourceManager nor this machine knows a job with this id.',
    hint: 'Check the id; the ResourceManager forgets old applications, local jobs are pruned.',
  },
  BUNDLES_MISSING: {
    exit: 2,
    means: 'tony-ts has not been built: the programs that containers run are not there.',
    hint: 'Run npm run build in the folder of tony-ts.',
  },
  KILL_FAILED: {
    exit: 1,
    means: 'The job was told to end, and goes on.',
    hint: 'Try again.',
  },
  CLUSTER_SECURE: {
    exit: 2,
    means: 'The cluster asks for Kerberos, which tony-ts does not speak.',
    hint: 'Use a cluster without Kerberos, or run the job with --local.',
  },
  RUNTIME_MISSING: {
    exit: 2,
    means: 'The archive that `runtime` in job.yaml names is not there.',
    hint: 'Correct `runtime` in job.yaml; tony-ts runtime build makes such an archive.',
  },
  JOB_TOO_LARGE: {
    exit: 2,
    means:
      'A task, or the ApplicationMaster, asks for more than the largest container or node of the cluster has, or for a resource type that the cluster lacks.',
    hint: 'Change what is named above in job.yaml; tony-ts submit --dry-run shows what would be asked for.',
  },
  JOB_REFUSED: {
    exit: 2,
    means:
      "The cluster would refuse the job: its queue is stopped or may not use nodes with the job's label, or a total of tony-site.yaml is used up and `over` is `fail`. Nothing was uploaded.",
    hint: 'Choose another queue with --set queue=NAME, or submit again later; tony-ts doctor --queue NAME shows the state of a queue.',
  },
  INTERRUPTED: {
    exit: 130,
    means: 'Somebody has pressed Ctrl-C, or the command was told to end, before it was done.',
    hint: '',
  },
  TASK_UNKNOWN: {
    exit: 2,
    means: 'The job has no such role or task.',
    hint: 'Name a task as ROLE:INDEX.',
  },
  USAGE: {
    exit: 2,
    means: 'The command, or a function of the library, was called in a way that is not possible.',
    hint: 'See tony-ts --help.',
  },
  NO_HADOOP_CONF: {
    exit: 2,
    means: 'Nothing says which cluster is meant: neither HADOOP_CONF_DIR nor HADOOP_HOME is set, and no --resource-manager is given.',

    hint: 'Set HADOOP_CONF_DIR to the folder with core-site.xml and yarn-site.xml, or run the job on this machine with --local.',
  },
  HADOOP_CONF_INVALID: {
    exit: 2,
    means: 'A file of the Hadoop configuration is no XML, has a value that is none, or lacks one that is needed.',
    hint: 'Correct the Hadoop configuration named above.',
  },
  RM_UNREACHABLE: {
    exit: 3,
    means: 'No ResourceManager answers at its web address.',

    hint: 'Check that the ResourceManager runs, and that yarn.resourcemanager.webapp.address (or yarn.resourcemanager.hostname) in yarn-site.xml names it.',
  },
  RM_REFUSED: {
    exit: 2,
    means: 'The ResourceManager answers, and refuses the request: its own words are in the message.',
    hint: 'Correct what the ResourceManager objects to and try again.',
  },
  APPLICATION_NOT_FOUND: {
    exit: 2,
    means: 'The ResourceManager does not know this application (any more).',

    hint: 'Check the application id; `yarn application -list -appStates ALL` shows those that the ResourceManager still knows.',
  },
  HDFS_UNREACHABLE: {
    exit: 3,
    means: 'No NameNode, or no DataNode, answers at its web address (WebHDFS).',

    hint: 'Check that the NameNode runs, and that fs.defaultFS and dfs.namenode.http-address name it.',
  },
  NOT_FOUND: {
    exit: 2,
    means: 'A file or folder that is needed is not there.',
    hint: 'Check the path.',
  },
  ALREADY_EXISTS: {
    exit: 2,
    means: 'There is something in the place of a file or folder that was to be made.',
    hint: 'Choose another path, or remove what is there.',
  },
  ACCESS_DENIED: {
    exit: 2,
    means: 'The file system does not let this user read or write there.',
    hint: 'Ask for access, or name a place that you may use.',
  },
  STORAGE_FULL: {
    exit: 2,
    means: 'The disks are full, or a quota of HDFS for space or names is used up.',
    hint: 'Free space (tony-ts cache prune, tony-ts history prune), or have the quota raised.',
  },
  STORAGE_REFUSED: {
    exit: 2,
    means: 'The file system refuses, for a reason of its own that is in the message.',
    hint: 'Check the path and what the file system objects to.',
  },
  LOGS_UNAVAILABLE: {
    exit: 2,
    means: 'Logs that should be there cannot be read now: from the node that wrote them, or from what YARN has collected.',
    hint: 'Logs of a job that has just ended appear when their aggregation is done; try again in a moment.',
  },
  CREDENTIALS_INVALID: {
    exit: 1,
    means: 'The tokens that YARN gave to a container are not there, or cannot be read.',
    hint: 'The file comes from YARN or from the client; submit the job again.',
  },
  RPC_UNREACHABLE: {
    exit: 3,
    means: 'A Hadoop daemon cannot be reached at its RPC address.',
    hint: 'Check that the daemon named above runs and can be reached from here.',
  },
  RPC_TIMEOUT: {
    exit: 3,
    means: 'A Hadoop daemon has taken a call and does not answer it.',
    hint: 'The daemon named above is overloaded or hangs; its log says more.',
  },
  RPC_PROTOCOL: {
    exit: 3,
    means: 'What answers at the RPC address does not speak the RPC protocol of Hadoop 3.',
    hint: 'Check that host and port above are those of a Hadoop RPC service, of Hadoop 3.',
  },
  RPC_REFUSED: {
    exit: 3,
    means: 'A Hadoop daemon does not accept the token (or user) of a connection.',
    hint: 'The daemon does not accept this token: check that it belongs to the cluster that issued it.',
  },
  RPC_FAILED: {
    exit: 1,
    means: 'A Hadoop daemon answers a call with an exception, which is in the message.',
    hint: 'The log of the daemon named above says more.',
  },
  RPC_CLOSED: {
    exit: 1,
    means: 'A connection to a Hadoop daemon was closed on purpose, with calls still open: the process was about to end.',
    hint: 'The connection was closed on this side while an answer was awaited.',
  },
  ATTEMPT_FENCED: {
    exit: 1,
    means: 'YARN no longer lets this attempt of the ApplicationMaster act for the job.',
    hint: 'The application was killed, or another attempt of its ApplicationMaster has taken over.',
  },
  RESOURCE_UNKNOWN: {
    exit: 2,
    means: 'A task asks for a resource type (such as gpus) that the cluster does not count.',

    hint: 'Ask for a resource type that the cluster has, or have it configured in resource-types.xml of the ResourceManager.',
  },
  RUNTIME_UNSUPPORTED: {
    exit: 2,
    means: 'No runtime can be built on this kind of machine.',

    hint: 'Run `tony-ts runtime build --to FILE` on a Linux machine and name the file as `runtime` in job.yaml, or use `runtime: system`.',
  },
  RUNTIME_TOOL_MISSING: {
    exit: 2,
    means: 'A program that builds the runtime (npm, python3 with pip, tar, a compiler) is not installed.',
    hint: 'Install it on this machine (nodes of the cluster need nothing), and try again.',
  },
  RUNTIME_DOWNLOAD_FAILED: {
    exit: 3,
    means: 'A package of the runtime could not be downloaded.',

    hint: 'Check that npm and pip reach their package registries here (`npm ping`, `python3 -m pip download six`): their own settings for mirrors and proxies are used.',
  },
  RUNTIME_HASH_MISMATCH: {
    exit: 2,
    means: 'A package of the runtime was downloaded, and is not the one that was published under this name and version.',

    hint: 'The registry (or a mirror, or a cache on the way) delivers something else than was published: do not use it. `npm cache clean --force` and `python3 -m pip cache purge` empty the local caches.',
  },
  RUNTIME_COMPILE_FAILED: {
    exit: 2,
    means: 'The compiler could not build the native part of the runtime.',
    hint: 'A C++17 compiler is needed (g++ 8 or newer; CXX names another one).',
  },
  RUNTIME_NOT_BUILT: {
    exit: 2,
    means: 'A runtime is needed here, and has not been built on this machine.',
    hint: 'Build it with `tony-ts runtime build`.',
  },
  RUNTIME_CACHE_UNWRITABLE: {
    exit: 2,
    means: 'The folder in which runtimes are built and kept cannot be written, or its disk is full.',

    hint: 'A build needs 2 GB of space, and write access; TONY_CACHE_DIR (or XDG_CACHE_HOME) names another folder.',
  },
  RUNTIME_BROKEN: {
    exit: 2,
    means: 'A runtime was built, and does not work when it is tried.',
    hint: 'Build it anew with `tony-ts runtime build --force`.',
  },
  PEER_LOST: {
    exit: 1,
    means: 'Another task that trains in the same gang has died, or cannot be reached any more.',

    hint: 'Training goes on from the newest checkpoint when the lost task is replaced; its own log says why it ended.',
  },
  RING_JOIN_FAILED: {
    exit: 1,
    means: 'The tasks that train together have not all found each other in time.',

    hint: 'Check that every ranked role calls join(), and that containers may reach each other on any port.',
  },
  RING_MISMATCH: {
    exit: 1,
    means: 'Tasks that train together make different calls, or calls with different lengths.',

    hint: 'Every rank must make the same calls (fit, step, allReduce, barrier) in the same order, with equal lengths.',
  },
  RANKS_DIFFER: {
    exit: 1,
    means: 'Weights that have to be equal on all ranks are not; the first variable that differs is named.',

    hint: 'Ranks that start equal stay equal: look for a program that changes weights on some ranks only, and for memory errors of the machine.',
  },
  TASK_FILE_INVALID: {
    exit: 1,
    means: 'What TONY_TASK_FILE tells a program of its task cannot be read, or contradicts itself.',
    hint: 'TONY_TASK_FILE is set by the executor; unset it to run the program alone.',
  },
  BACKEND_MISSING: {
    exit: 1,
    means: 'No backend of TensorFlow.js can be loaded.',
    hint: 'Install @tensorflow/tfjs, or build a runtime with `tony-ts runtime build`.',
  },
  BACKEND_UNFIT: {
    exit: 1,
    means: 'The backend of TensorFlow.js that was loaded cannot do this, or would compute it wrongly.',
    hint: 'Use a runtime with the native backend (`tony-ts runtime build`), or set TONY_BACKEND=cpu.',
  },
  TRAINING_DIVERGED: {
    exit: 1,
    means: 'The loss, or a weight, has become NaN or infinite: no further step makes it a number again.',

    hint: "Lower the learning rate, bound the gradients (clipNorm), or look for NaN and wrong scales in the data; onNaN: 'continue' trains on.",
  },
  MODEL_INVALID: {
    exit: 1,
    means: 'The model is not compiled, has nothing to train, or does not fit what it is used for.',
    hint: 'Correct the model, or what is handed to fit.',
  },
  DATA_INVALID: {
    exit: 1,
    means: 'Data are damaged, or have other shapes than the model takes.',
    hint: 'Check the data handed to fit and the files it comes from.',
  },
  SUMMARY_INVALID: {
    exit: 1,
    means: 'What was handed to cluster.summaries is no such summary.',
    hint: 'Correct what is handed to cluster.summaries.',
  },
  MODEL_UNREADABLE: {
    exit: 1,
    means: 'A model of TensorFlow.js is not there, or its files are damaged.',
    hint: 'Name a folder with a model.json of TensorFlow.js, or that file.',
  },
  MODEL_NOT_EXPORTABLE: {
    exit: 1,
    means: 'A GraphModel cannot say what a layer of the model does.',
    hint: 'Export it with exportLayersModel, or replace the layer named above.',
  },
  WARM_START_MISFIT: {
    exit: 1,
    means: 'The weights of the other model do not fit this one.',
    hint: 'Compare the names and shapes of both models; { layers } says which are to be taken.',
  },
  CHECKPOINT_DAMAGED: {
    exit: 1,
    means: 'A checkpoint is incomplete, or its checksums do not hold.',
    hint: 'An older checkpoint is used where there is one.',
  },
  CHECKPOINT_MISFIT: {
    exit: 1,
    means: 'A checkpoint is whole, and of another model or dataset than this one.',

    hint: 'The checkpoint is of another model: name another checkpoint.dir in job.yaml, or remove the folder.',
  },
  CHECKPOINT_FENCED: {
    exit: 1,
    means: 'A process of an earlier generation has tried to write a checkpoint.',
    hint: 'A newer generation of the job has taken over; this process is to end.',
  },
  CHECKPOINT_FAILED: {
    exit: 1,
    means: 'A checkpoint could not be written.',
    hint: 'Check the space, the permissions and the NameNode of the checkpoint folder.',
  },
  SERVICE_LOST: {
    exit: 1,
    means: 'A program has no way to its ApplicationMaster, which gives out splits of data and records of feeds.',
    hint: "The executor's own log (tony.log of the task) says more; it is replaced when it has died.",
  },
  FEED_ENDED: {
    exit: 1,
    means: 'The job has ended before it had taken everything that was fed to it.',
    hint: 'tony-ts status and tony-ts logs say how the job ended; what it had not taken was not trained on.',
  },
  FEED_REFUSED: {
    exit: 2,
    means: 'The job does not accept this producer: its token is wrong, or it says something that is not possible.',
    hint: 'Only the user who submitted a job may feed it.',
  },
  OUTPUT_MISMATCH: {
    exit: 1,
    means: 'The output folder holds something else than earlier results of the same call.',
    hint: 'Name another output folder, or remove this one.',
  },
  TRIAL_FAILED: {
    exit: 1,
    means: 'A trial of a sweep has thrown an error, or has not given the metric by which trials are compared.',
    hint: 'Correct the trial; what other trials have found is kept, and not computed again.',
  },
  FUNCTION_INVALID: {
    exit: 2,
    means: 'run() cannot send the function to the cluster: its text does not compile by itself, or its module is missing.',
    hint: "Export the function from a module of its own, and name it: run(options, { module: new URL('./train.ts', import.meta.url), export: 'train' }).",
  },
  JOB_FAILED: {
    exit: 1,
    means: 'The job of a run(), or of a handle, has failed or was killed; why is in the message.',
    hint: 'Its logs say more: tony-ts logs with its id.',
  },
  CONTAINER_INVALID: {
    exit: 1,
    means: 'An ApplicationMaster or an executor was started in a container that lacks what the client or YARN puts there.',
    hint: 'Only the ApplicationMaster starts executors; submit the job again.',
  },
  TENSORBOARD_UNAVAILABLE: {
    exit: 1,
    means: 'TensorBoard does not run, or not yet.',
    hint: "The job's own page has charts of its own; tony-ts logs of the task tensorboard:0 says more.",
  },
  STATE_UNREADABLE: {
    exit: 1,
    means: 'The state that an earlier ApplicationMaster of the job has saved cannot be read.',
    hint: 'The job starts from the newest checkpoint; its history tells what it had done.',
  },
  INTERNAL: {
    exit: 1,
    means: 'Something has happened that should be impossible.',
    hint: 'This is a defect of tony-ts; please report it with the log.',
  },
} as const satisfies Record<string, { exit: 1 | 2 | 3 | 130; means: string; hint: string }>;

export type ErrorCode = keyof typeof ERROR_CODES;

/** The only error class. `message` describes the failure, `hint` the next step for the user. */
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

/** Returns the message of any thrown value, on one line. */
export function messageOf(thrown: unknown): string {
  const text = thrown instanceof Error ? thrown.message || thrown.name : String(thrown);
  return text.replace(/\s*\n\s*/g, ' ').trim();
}

/**
 * Returns the reason why a file is unusable, for a sentence that names the file: the middle part of `ENOENT: no such file or directory,
 * open 'x'`.
 */
export function fileErrorOf(thrown: unknown): string {
  return messageOf(thrown).replace(/^E[A-Z]+: (.+?), [a-z]+( '.*)?$/, '$1');
}
