/** Exit codes of the `tony-ts` command, with their meanings. */
export const EXIT_CODES = {
  0: 'the command or the job succeeded',
  1: 'the job failed or was killed',
  2: 'the request, or something on this machine, is invalid',
  3: 'the cluster is unreachable or busy: try again later',
  4: 'the cluster refuses the request: quotas, permissions, Kerberos, or missing resources',
  70: 'an internal error of tony-ts',
  130: 'interrupted',
} as const;

export type FailureExit = Exclude<keyof typeof EXIT_CODES, 0>;

/** Error codes for all failures that users can see, with their meaning and default hint. `exit` is the exit code of the command. */
export const ERROR_CODES = {
  JOB_INVALID: {
    exit: 2,
    means: 'job.yaml or a value passed with --set is invalid. The message lists every mistake with its line and column.',
    hint: 'Correct the lines listed above and submit again.',
  },
  SITE_INVALID: {
    exit: 2,
    means: "The cluster's tony-site.yaml is invalid. The message lists every mistake.",
    hint: 'Ask the cluster admin to correct the lines listed above in tony-site.yaml.',
  },
  QUOTA_EXCEEDED: {
    exit: 4,
    means:
      'The job requests more than tony-site.yaml allows for its roles, user, groups or queue. The message lists every exceeded limit and what would fit.',
    hint: 'Request less, or ask the cluster admin for more. `tony-ts quotas show` lists all limits.',
  },
  FINAL_VALUES_MISMATCH: {
    exit: 4,
    means: 'A program submitted a job that lacks the final values from tony-site.yaml, because it loaded the job without the site file.',
    hint: "Pass the cluster's site file to loadJob: loadJob(path, { site: await siteFor(options) }).",
  },
  LISTEN_FAILED: {
    exit: 2,
    means:
      'The history server, or `tony-ts forward`, cannot listen on this address and port, usually because another process already uses the port.',
    hint: 'Choose another port with --port, or another address of this machine with --listen.',
  },
  HISTORY_NOT_FOUND: {
    exit: 2,
    means:
      'No history of this job exists, or several users have a history with this ID and the cluster no longer knows who submitted the application.',
    hint: 'Check the ID with `tony-ts history`. tony-ts removes old histories, and a job that never started leaves none. If several users have a history with this ID, run `tony-ts history show JOB_ID --user NAME`.',
  },
  SITE_UNREADABLE: {
    exit: 4,
    means: 'This user is not allowed to read the site file.',
    hint: 'Ask the cluster admin to make the site file readable by all users.',
  },
  HISTORY_UNWRITABLE: {
    exit: 4,
    means: 'The history folder that the admin configured does not exist, or this user cannot create a folder in it.',
    hint: 'Ask the cluster admin to check the folder that history.dir in tony-site.yaml specifies: `tony-ts doctor` shows what is wrong with it.',
  },
  JOB_UNREADABLE: {
    exit: 2,
    means: 'The job file does not exist or cannot be read.',
    hint: 'Check the path of the job file. To create a job file, run `tony-ts init`.',
  },
  SOURCE_NOT_FOUND: {
    exit: 2,
    means: "The job's source folder, one of its input folders, or a file that a command runs does not exist.",
    hint: 'Correct `source` (or `data`) in job.yaml, where paths are relative to its folder, or --source.',
  },
  SOURCE_UNREADABLE: {
    exit: 2,
    means: 'A file in the source folder cannot be read, or it changed while it was being packed.',
    hint: 'Make the file readable, or exclude it in .tonyignore.',
  },
  SOURCE_INVALID: {
    exit: 2,
    means:
      'The source folder contains a link that points outside the folder or makes the folder contain itself, or an entry that is neither a file nor a folder.',
    hint: 'Replace the entry with a copy, or exclude it in .tonyignore.',
  },
  STAGING_UNWRITABLE: {
    exit: 4,
    means: 'The staging folder is not writable, or it belongs to another user.',
    hint: 'Request write access to the folder, or choose another folder with --staging.',
  },
  FOLDER_DENIED: {
    exit: 2,
    means: 'A local folder from which jobs run programs belongs to another user, or other users can write to it.',
    hint: 'Remove write permission for other users, or choose a folder of your own.',
  },
  JOB_NOT_FOUND: {
    exit: 2,
    means: 'Neither the ResourceManager nor this machine has a job with this ID.',
    hint: 'Check the ID: `tony-ts list --all` lists your jobs. The ResourceManager removes old applications, and tony-ts removes old local jobs.',
  },
  BUNDLES_NOT_FOUND: {
    exit: 2,
    means: 'tony-ts is not built: the bundles that containers run are missing.',
    hint: 'Run `npm run build` in the tony-ts folder.',
  },
  KILL_FAILED: {
    exit: 3,
    means: 'YARN accepted the kill request, but the job is still running.',
    hint: 'Run `tony-ts kill` again. If the job keeps running, ask the cluster admin to kill it.',
  },
  KERBEROS_TICKET_NOT_FOUND: {
    exit: 4,
    means: 'The cluster requires Kerberos, and this user has no ticket.',
    hint: 'Run kinit, or name a keytab: TONY_PRINCIPAL and TONY_KEYTAB, or `kerberos` in tony-site.yaml. klist shows your tickets.',
  },
  KERBEROS_TICKET_EXPIRED: {
    exit: 4,
    means: "The user's Kerberos ticket has expired.",
    hint: 'Run kinit again. kinit -R renews a renewable ticket that has not expired yet.',
  },
  KERBEROS_CLOCK_MISMATCH: {
    exit: 4,
    means: 'The clocks of this machine, the key distribution center and the daemon differ by more than Kerberos tolerates (5 minutes).',
    hint: 'Run a time service (chrony, ntpd) on all machines, then run kinit again.',
  },
  KERBEROS_SERVER_NOT_FOUND: {
    exit: 4,
    means: 'The key distribution center has no HTTP principal for a host in the Hadoop configuration.',
    hint: 'In core-site.xml, hdfs-site.xml and yarn-site.xml, use the host names that the principals contain (HTTP/HOST@REALM): usually the full host name, not an alias or an address.',
  },
  KERBEROS_REALM_DENIED: {
    exit: 4,
    means:
      "The cluster does not accept principals of this realm, or its rules (hadoop.security.auth_to_local) do not cover the user's principal.",
    hint: "Run kinit with a principal of the cluster's realm: kinit USER@REALM. Otherwise, ask the cluster admin to add a rule to hadoop.security.auth_to_local.",
  },
  KERBEROS_TOOL_NOT_FOUND: {
    exit: 2,
    means: 'A program that Kerberos requires is not installed: klist, kinit, or curl with SPNEGO support.',
    hint: 'Install the missing program (Debian: apt-get install krb5-user curl; Red Hat: dnf install krb5-workstation curl).',
  },
  SERVER_DENIED: {
    exit: 2,
    means:
      "A job or a command names a server that would receive the user's Kerberos ticket, cookie or delegation token, but neither the Hadoop configuration nor the ResourceManager names this server. The server could use them to act as the user.",
    hint: 'If this file system belongs to a cluster that you trust, add its URI to mapreduce.job.hdfs-servers in core-site.xml of HADOOP_CONF_DIR, or its nameservice to dfs.nameservices in hdfs-site.xml.',
  },
  KERBEROS_FAILED: {
    exit: 4,
    means: 'Kerberos authentication failed for a reason that no other code covers. The message contains the reason.',
    hint: 'klist shows your ticket. KRB5_TRACE=/dev/stderr kvno HTTP/HOST shows what Kerberos does.',
  },
  TOKEN_NOT_FOUND: {
    exit: 4,
    means: 'The file named by HADOOP_TOKEN_FILE_LOCATION cannot be read, or contains no delegation token for a cluster service.',
    hint: 'In a container, such as that of a Spark driver, set TONY_PRINCIPAL and TONY_KEYTAB to use a keytab. Elsewhere, unset HADOOP_TOKEN_FILE_LOCATION to use your ticket.',
  },
  TOKEN_EXPIRED: {
    exit: 4,
    means:
      'A delegation token of a job, or in the file named by HADOOP_TOKEN_FILE_LOCATION, has reached the end of its lifetime, or was cancelled.',
    hint: 'Submit the job again with `checkpoint.dir` set to its checkpoint folder. If job.yaml sets `kerberos.keytab`, the job replaces its tokens before they expire. Outside a job, write new tokens to the file, or unset HADOOP_TOKEN_FILE_LOCATION to use your ticket.',
  },
  KEYTAB_INVALID: {
    exit: 2,
    means: 'The keytab that `kerberos.keytab` in job.yaml names cannot be read, is damaged, or belongs to another user.',
    hint: 'Check the keytab with klist -k FILE, or remove `kerberos` from job.yaml.',
  },
  KMS_UNREACHABLE: {
    exit: 3,
    means: "None of the cluster's key servers (KMS) issued a delegation token.",
    hint: 'Check that hadoop.security.key.provider.path in core-site.xml names the key servers, and that they are running.',
  },
  RUNTIME_NOT_FOUND: {
    exit: 2,
    means: 'The runtime archive named in job.yaml does not exist.',
    hint: 'Correct `runtime` in job.yaml. To build a runtime archive, run `tony-ts runtime build`.',
  },
  PYTHON_PACKAGES_NOT_FOUND: {
    exit: 2,
    means: "pip found no set of wheels that satisfies the job's requirements and runs on the nodes.",
    hint: 'Choose another version of the package, or set `version` and `platform` under `python` in job.yaml to those of the nodes. If a package has no wheel, build one with `python3 -m pip wheel` and list the path of the wheel.',
  },
  PYTHON_MISMATCH: {
    exit: 4,
    means: "The job's Python packages do not work on the nodes, according to the last `tony-ts doctor --probe`.",
    hint: 'Set `version` and `platform` under `python` in job.yaml to match the nodes.',
  },
  PROBE_FAILED: {
    exit: 1,
    means: 'The YARN application that `tony-ts doctor --probe` started failed before it reported its results.',
    hint: "If the message names GLIBC, the shipped Node.js could not start on the ApplicationMaster's node. Otherwise, read the ApplicationMaster's log with `yarn logs`.",
  },
  RESOURCES_EXCEEDED: {
    exit: 4,
    means:
      "A task or the ApplicationMaster requests more than the cluster's largest container or node offers, the job requests more than its queue can ever provide, or the cluster does not have the resource type.",
    hint: 'Change the values named above in job.yaml. `tony-ts submit --dry-run` shows what the job would request.',
  },
  JOB_DENIED: {
    exit: 4,
    means:
      "The cluster would reject the job: its queue is stopped or cannot use nodes with the job's label, or a total limit in tony-site.yaml is used up and `over` is `fail`. Nothing was uploaded.",
    hint: 'Choose another queue with --set queue=NAME, or submit again later. `tony-ts doctor --queue NAME` shows the state of a queue.',
  },
  INTERRUPTED: {
    exit: 130,
    means: 'Ctrl-C or a signal stopped the command before it finished.',
    hint: '',
  },
  TASK_NOT_FOUND: {
    exit: 2,
    means: 'The job has no such role or task.',
    hint: 'Write a task as ROLE:INDEX, for example worker:0.',
  },
  USAGE: {
    exit: 2,
    means: 'A command line or a library call is invalid.',
    hint: 'For a command, see `tony-ts COMMAND --help`. For a call in a program, see docs/training.md.',
  },
  HADOOP_CONF_NOT_FOUND: {
    exit: 2,
    means: 'No cluster is configured: neither HADOOP_CONF_DIR nor HADOOP_HOME is set, and --resource-manager was not given.',
    hint: 'Set HADOOP_CONF_DIR to the folder with core-site.xml and yarn-site.xml.',
  },
  HADOOP_CONF_INVALID: {
    exit: 2,
    means: 'A Hadoop configuration file is not valid XML, contains an invalid value, or lacks a required value.',
    hint: 'Correct the Hadoop configuration named above.',
  },
  TLS_FAILED: {
    exit: 2,
    means:
      'A TLS connection to a cluster server failed: the certificate is not trusted, has expired or is for another host, or only one side uses HTTPS.',
    hint: "Check the truststore named in ssl-client.xml in HADOOP_CONF_DIR, and the PEM file named by tls.ca in tony-site.yaml. One of them must contain the cluster's certificate authority.",
  },
  TRUST_STORE_UNREADABLE: {
    exit: 2,
    means: 'The truststore named in ssl-client.xml, or the PEM file named in tony-site.yaml, cannot be read.',
    hint: 'Correct ssl.client.truststore.location and its password in ssl-client.xml, or tls.ca in tony-site.yaml.',
  },
  GATEWAY_CREDENTIALS_INVALID: {
    exit: 2,
    means:
      'The file with the user name and password for HttpFS or Knox cannot be read, other users can read it, or the gateway does not use HTTPS.',
    hint: 'Write USER:PASSWORD on a single line in the file that storage.credentials in tony-site.yaml specifies, and run chmod 600 on the file.',
  },
  RM_UNREACHABLE: {
    exit: 3,
    means: 'No ResourceManager answers at its web address.',
    hint: 'Check that the ResourceManager is running, and that its address is correct: --resource-manager, or yarn.resourcemanager.webapp.address (or yarn.resourcemanager.hostname) in yarn-site.xml.',
  },
  RM_DENIED: {
    exit: 4,
    means: 'The ResourceManager rejected the request. The message contains the reason.',
    hint: 'Correct the request as described in the message, and try again.',
  },
  HDFS_DENIED: {
    exit: 4,
    means: 'The NameNode requires authentication, and the request did not authenticate this user.',
    hint: 'If the cluster uses Kerberos, set hadoop.security.authentication to kerberos in the core-site.xml of HADOOP_CONF_DIR.',
  },
  HDFS_UNREACHABLE: {
    exit: 3,
    means: 'No NameNode or DataNode answers at its web address (WebHDFS).',
    hint: 'Check that the NameNode is running, and that fs.defaultFS and dfs.namenode.http-address are correct.',
  },
  HDFS_UNAVAILABLE: {
    exit: 3,
    means: 'The NameNode is in safe mode: it serves reads, but accepts no changes.',
    hint: 'Wait and try again: after a start, the NameNode leaves safe mode once enough DataNodes have reported their blocks. If `hdfs dfsadmin -safemode get` still prints ON, ask the HDFS admin to end safe mode.',
  },
  S3_UNREACHABLE: {
    exit: 3,
    means: 'The object store does not answer, or answers with a server error.',
    hint: 'Check AWS_ENDPOINT_URL, or fs.s3a.endpoint in core-site.xml, and that this machine and the cluster nodes can reach the object store.',
  },
  S3_CREDENTIALS_NOT_FOUND: {
    exit: 2,
    means: 'An s3:// URI is used, but no access key is configured.',
    hint: 'Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or fs.s3a.access.key and fs.s3a.secret.key in core-site.xml. If a program in the job uses an s3:// URI, name the URI in job.yaml, so that `submit` sends the access key to the job.',
  },
  NOT_FOUND: {
    exit: 2,
    means: 'A required file or folder does not exist.',
    hint: 'Check the path.',
  },
  ALREADY_EXISTS: {
    exit: 2,
    means: 'A file or folder cannot be created because its path already exists.',
    hint: 'Choose another path, or remove the existing file or folder.',
  },
  ACCESS_DENIED: {
    exit: 4,
    means: 'The file system denies this user read or write access, or the job belongs to another user.',
    hint: 'Request access, or choose a path that you are allowed to use.',
  },
  STORAGE_FULL: {
    exit: 4,
    means: 'The disks are full, or an HDFS quota for space or names is used up.',
    hint: 'Free up space on the disk that the message names. On HDFS, run `tony-ts cache prune` or `tony-ts history prune`, or ask the admin to raise the quota.',
  },
  STORAGE_DENIED: {
    exit: 4,
    means: 'The file system rejected the operation. The message contains the reason.',
    hint: 'Check the path and the reason in the message.',
  },
  LOGS_UNAVAILABLE: {
    exit: 3,
    means: "The logs cannot be read at the moment, neither from the node that wrote them nor from YARN's aggregated logs.",
    hint: 'The logs of a job that has just ended appear once YARN has aggregated them. Try again in a moment.',
  },
  CREDENTIALS_INVALID: {
    exit: 1,
    means: 'The file with the tokens that YARN provides to a container is missing or cannot be read.',
    hint: 'Submit the job again.',
  },
  RPC_UNREACHABLE: {
    exit: 3,
    means: 'A Hadoop daemon is not reachable at its RPC address.',
    hint: 'Check that the daemon named above is running and reachable from this machine.',
  },
  RPC_UNAVAILABLE: {
    exit: 3,
    means: 'A Hadoop daemon accepted a call but did not respond.',
    hint: 'The daemon named above is overloaded or has hung. Its log may show the cause.',
  },
  RPC_MISMATCH: {
    exit: 2,
    means: 'The server at the RPC address does not speak the Hadoop RPC protocol.',
    hint: 'Check that the host and port above belong to a Hadoop RPC service.',
  },
  RPC_DENIED: {
    exit: 4,
    means: 'A Hadoop daemon rejected the token or user name of a connection.',
    hint: 'Check that this cluster issued the token.',
  },
  RPC_FAILED: {
    exit: 4,
    means: 'A Hadoop daemon answered a call with an exception. The message contains the exception.',
    hint: 'See the log of the daemon named above.',
  },
  RPC_ENDED: {
    exit: 1,
    means: 'This process was about to exit, so it closed its connection to a Hadoop daemon although calls were pending.',
    hint: 'The log of this process shows why it exited.',
  },
  ATTEMPT_FENCED: {
    exit: 1,
    means: 'YARN no longer accepts requests from this ApplicationMaster attempt.',
    hint: 'No action is needed: the application was killed, or another ApplicationMaster attempt has taken over.',
  },
  RESOURCE_NOT_FOUND: {
    exit: 4,
    means: 'A task requests a resource type (such as gpus) that the cluster does not have.',
    hint: 'Request a resource type that the cluster has, or ask the admin to add it to resource-types.xml on the ResourceManager.',
  },
  RUNTIME_UNSUPPORTED: {
    exit: 2,
    means: "A runtime cannot be built on this machine's operating system or architecture.",
    hint: 'Run `tony-ts runtime build --to FILE` on a Linux machine, upload the file to HDFS, and set `runtime` in job.yaml to its URI, such as hdfs:///apps/tony-ts/runtime.tar.gz. Or use `runtime: system`.',
  },
  RUNTIME_TOOL_NOT_FOUND: {
    exit: 2,
    means:
      'A program that is required to build the runtime or to read python.requirements (npm, python3 with pip, uv, tar or a compiler) is not installed.',
    hint: 'Install the program on this machine and try again. The nodes do not need it.',
  },
  RUNTIME_DOWNLOAD_FAILED: {
    exit: 3,
    means: 'A package for the runtime could not be downloaded.',
    hint: 'Check that npm and pip can reach their package registries from this machine (`npm ping`, `python3 -m pip download six`). Both use their own settings for mirrors and proxies.',
  },
  RUNTIME_HASH_MISMATCH: {
    exit: 2,
    means: 'The checksum of a package downloaded for the runtime does not match the published checksum.',
    hint: 'Do not use the package: the registry, a mirror or a cache is delivering a different file. To empty the local caches, run `npm cache clean --force` and `python3 -m pip cache purge`.',
  },
  RUNTIME_COMPILE_FAILED: {
    exit: 2,
    means: 'The compiler failed to build the native part of the runtime.',
    hint: 'Install a C++17 compiler (g++ 8 or newer). To use a different compiler, set CXX.',
  },
  LOCAL_RUNTIME_NOT_FOUND: {
    exit: 2,
    means: 'The command requires a runtime, but no runtime has been built on this machine.',
    hint: 'Build a runtime with `tony-ts runtime build`.',
  },
  RUNTIME_CACHE_UNWRITABLE: {
    exit: 2,
    means: 'The folder in which runtimes are built and kept is not writable, or its disk is full.',
    hint: 'A build needs 2 GB of space and write access. To use another folder, set TONY_CACHE_DIR (or XDG_CACHE_HOME).',
  },
  RUNTIME_INVALID: {
    exit: 2,
    means: 'A runtime was built, but it fails its self-test.',
    hint: 'Rebuild it with `tony-ts runtime build --rebuild`.',
  },
  PEER_LOST: {
    exit: 1,
    means: 'Another task of the same gang has died or is no longer reachable.',
    hint: 'Training resumes from the newest checkpoint when the lost task is replaced. The log of the lost task shows why it ended.',
  },
  WIRE_INVALID: {
    exit: 1,
    means:
      "Data sent between two of the job's programs was modified, replayed, removed or injected on the network. The job detected the change because its `wire.security` is `authenticated` or `encrypted`.",
    hint: 'The message names the peer. tony-ts has not used the data, and training resumes from the newest checkpoint. If the failure occurs again, report it to the network admin: the cause is an attacker or faulty hardware.',
  },
  RING_JOIN_FAILED: {
    exit: 1,
    means: 'The tasks of the gang did not all connect to each other in time.',
    hint: 'Check that every role of kind gang calls join() and that containers can reach each other on any port.',
  },
  RING_MISMATCH: {
    exit: 1,
    means: 'Tasks of the gang make different calls, or pass data of different lengths to the same call.',
    hint: 'Every rank must make the same calls (fit, step, allReduce, barrier) in the same order and with equal lengths.',
  },
  RANKS_MISMATCH: {
    exit: 1,
    means: 'Weights that must be equal on all ranks differ. The message names the first variable that differs.',
    hint: 'Check for code that changes weights on some ranks only, and for a machine with faulty memory.',
  },
  TASK_FILE_INVALID: {
    exit: 1,
    means: 'The task file named by TONY_TASK_FILE cannot be read, or its contents are inconsistent.',
    hint: 'The executor sets TONY_TASK_FILE. Unset it to run the program outside a job.',
  },
  BACKEND_NOT_FOUND: {
    exit: 1,
    means: 'No TensorFlow.js backend can be loaded.',
    hint: 'Install @tensorflow/tfjs, or build a runtime with `tony-ts runtime build`.',
  },
  BACKEND_UNSUPPORTED: {
    exit: 1,
    means: 'The loaded TensorFlow.js backend does not support this operation, or would compute a wrong result.',
    hint: 'Use a runtime with the native backend (`tony-ts runtime build`), or set TONY_BACKEND=cpu.',
  },
  TRAINING_DIVERGED: {
    exit: 1,
    means: 'The loss or a weight has become NaN or infinite. Further steps cannot recover from it.',
    hint: "Lower the learning rate, clip the gradients (clipNorm), or check the data for NaN and badly scaled values. To continue training anyway, pass onNaN: 'continue'.",
  },
  MODEL_INVALID: {
    exit: 1,
    means: 'The model is not compiled, has no trainable weights, or cannot be used in this call.',
    hint: 'Correct the model or the arguments of fit.',
  },
  DATA_INVALID: {
    exit: 1,
    means: 'Data is damaged, or its shapes differ from those that the model expects.',
    hint: 'Check the data that the program passes to fit, and the files that contain the data.',
  },
  SUMMARY_INVALID: {
    exit: 1,
    means: 'The value passed to cluster.summaries is not a valid summary.',
    hint: 'Correct the value passed to cluster.summaries.',
  },
  MODEL_UNREADABLE: {
    exit: 1,
    means: 'A model does not exist, its files are damaged, or TensorFlow.js does not support it.',
    hint: 'Pass the folder that contains the model.json file of a TensorFlow.js model, or the saved_model.pb file of a SavedModel.',
  },
  MODEL_UNSUPPORTED: {
    exit: 1,
    means: 'The model cannot be exported as a GraphModel or SavedModel.',
    hint: 'Export the model with exportLayersModel, or replace the layer named above.',
  },
  WARM_START_MISMATCH: {
    exit: 1,
    means: 'The names or shapes of the weights do not match this model.',
    hint: 'Compare the names and shapes of both models. To copy only some layers, pass { layers }.',
  },
  GPUS_NOT_FOUND: {
    exit: 1,
    means: 'A container sees fewer GPUs than its task has requested, or other tasks on the same node use some of the GPUs that it sees.',
    hint: 'Check the driver on the node with nvidia-smi. Without GPU isolation in YARN, other programs on the node may use the GPUs. To choose the devices yourself, set CUDA_VISIBLE_DEVICES under env.',
  },
  CHECKPOINT_INVALID: {
    exit: 1,
    means: 'A checkpoint is incomplete, or its checksums do not match.',
    hint: 'If the job has an older checkpoint, it resumes from that checkpoint, and no action is needed.',
  },
  CHECKPOINT_MISMATCH: {
    exit: 1,
    means: 'A checkpoint is intact but belongs to another model or dataset.',
    hint: 'Set another checkpoint.dir in job.yaml, or remove the checkpoint folder.',
  },
  CHECKPOINT_FENCED: {
    exit: 1,
    means: 'A process from an earlier generation tried to write a checkpoint.',
    hint: 'No action is needed: a newer generation of the job has taken over, and this process exits.',
  },
  CHECKPOINT_FAILED: {
    exit: 1,
    means: 'A checkpoint could not be written.',
    hint: 'Check the free space and the permissions of the checkpoint folder, and whether the NameNode is available.',
  },
  SERVICE_LOST: {
    exit: 1,
    means: 'A program cannot reach its ApplicationMaster, which assigns data splits and feed records.',
    hint: "See the executor's log (the task's tony.log). If the executor has died, the job replaces it.",
  },
  RENDEZVOUS_FULL: {
    exit: 1,
    means: 'The process addresses of a Horovod job exceed the size limit of the rendezvous store.',
    hint: 'Start fewer processes: reduce `instances` or `processesPerTask`.',
  },
  FEED_ENDED: {
    exit: 1,
    means: 'The job ended before it had received all records of the feed.',
    hint: '`tony-ts status` and `tony-ts logs` show how the job ended. The job did not receive the remaining records.',
  },
  FEED_DENIED: {
    exit: 4,
    means: 'The job rejected this producer: its token is wrong, or its request is invalid.',
    hint: 'Only the user who submitted a job can feed it.',
  },
  FEED_LOST: {
    exit: 1,
    means: 'The program that sends the partitions of a feed, such as a Spark driver, has ended or cannot reach the job.',
    hint: 'Start the program again: it submits a new job. If `checkpoint.dir` names the same folder, the new job resumes from the checkpoint, and reads the data from the beginning, but a stream from its place in the checkpoint.',
  },
  SESSION_DENIED: {
    exit: 2,
    means: "The session cannot start: no such task is running, or none of the task's processes listens on the port.",
    hint: "`tony-ts status` shows the job's tasks and their states.",
  },
  SESSION_ENDED: {
    exit: 1,
    means: "A session with a task ended early, because the task's program, the job or the connection ended.",
    hint: "`tony-ts status` shows the job's state. If the task has restarted, run the command again.",
  },
  REMOTE_ACCESS_DENIED: {
    exit: 4,
    means: "The job does not permit sessions: job.yaml or the cluster's tony-site.yaml sets `remoteAccess: false`.",
    hint: 'Remove `remoteAccess: false` from job.yaml and submit again. If the site file sets it, ask the cluster admin.',
  },
  OUTPUT_MISMATCH: {
    exit: 1,
    means: 'The output folder contains results of a different prediction or sweep, or other files.',
    hint: 'Choose another output folder, or remove this folder.',
  },
  TRIAL_FAILED: {
    exit: 1,
    means: 'A trial of a sweep threw an error, or did not return the metric by which the sweep compares trials.',
    hint: 'Correct the trial. The sweep keeps the results of the other trials.',
  },
  FUNCTION_INVALID: {
    exit: 2,
    means:
      'run() cannot send the function to the cluster: its source text does not compile on its own, or its module is missing. In Python: the function, an argument or the value cannot be pickled, or the node has another Python version.',
    hint: "Move the function to its own module, export it, and pass the module: run(options, { module: new URL('./train.ts', import.meta.url), export: 'train' }). In Python, the message names the object to replace.",
  },
  JOB_FAILED: {
    exit: 1,
    means:
      'A job failed or was killed while run(), a job handle or the Python client was waiting for the job. The message contains the cause.',
    hint: 'Read the logs: `tony-ts logs JOB_ID`.',
  },
  COMMAND_NOT_FOUND: {
    exit: 2,
    means: 'The Python client cannot find the `tony-ts` command on this machine.',
    hint: 'Install tony-ts on this machine, add the folder of `tony-ts` to PATH, or pass its path: Client(command=[...]) or TONY_COMMAND.',
  },
  COMMAND_FAILED: {
    exit: 70,
    means:
      'The command that the Python client ran ended without a result, or printed unexpected output. The message contains the last lines of the output.',
    hint: 'Run the same command in a terminal. If it works there, make sure that the Python package and the command have the same version.',
  },
  CONTAINER_INVALID: {
    exit: 1,
    means:
      'An ApplicationMaster or an executor was started in a container without the files or variables that the client or YARN provides.',
    hint: 'Only the ApplicationMaster starts executors. Submit the job again.',
  },
  TENSORBOARD_UNAVAILABLE: {
    exit: 3,
    means: 'TensorBoard is not running, or has not started yet.',
    hint: "The job's page shows charts without TensorBoard. To see why TensorBoard is not running, run `tony-ts logs JOB_ID tensorboard:0`.",
  },
  STATE_UNREADABLE: {
    exit: 1,
    means: 'The state saved by an earlier ApplicationMaster attempt cannot be read.',
    hint: 'The job resumes from the newest checkpoint. The history shows what the job did before.',
  },
  INTERNAL: {
    exit: 70,
    means: 'An internal invariant of tony-ts was violated.',
    hint: 'This is a bug in tony-ts. Please report it together with the log.',
  },
} as const satisfies Record<string, { exit: FailureExit; means: string; hint: string }>;

/** Placeholder in default hints. */
const JOB_ID = 'JOB_ID';

export type ErrorCode = keyof typeof ERROR_CODES;

/** The only error class in tony-ts. `message` describes the failure, and `hint` describes the next step for the user. */
export class TonyError extends Error {
  override readonly name = 'TonyError';
  readonly code: ErrorCode;
  readonly hint: string;

  /** @param options.jobId replaces the placeholder JOB_ID in the default hint */
  constructor(code: ErrorCode, message: string, options: { hint?: string; jobId?: string; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    const { jobId = JOB_ID, hint = ERROR_CODES[code].hint.replaceAll(JOB_ID, jobId) } = options;
    this.hint = hint;
  }

  get exitCode(): FailureExit {
    return ERROR_CODES[this.code].exit;
  }

  /** Whether a server of the cluster did not respond. Programs that follow a job wait until it responds again. */
  get unreachable(): boolean {
    return this.code.endsWith('_UNREACHABLE') || this.code === 'RPC_UNAVAILABLE';
  }

  /** Whether the same call may succeed later, without any change. */
  get retryable(): boolean {
    return this.exitCode === 3;
  }
}

/** Returns the message of a thrown value on one line. */
export function messageOf(thrown: unknown): string {
  const text = thrown instanceof Error ? thrown.message || thrown.name : String(thrown);
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
    .join(' ');
}

/** Returns the reason in a file system error: `no such file or directory` for `ENOENT: no such file or directory, open 'x'`. */
export function fileErrorOf(thrown: unknown): string {
  if ((thrown as { readonly code?: unknown } | null)?.code === 'EISDIR') {
    return 'it is a folder';
  }
  return messageOf(thrown).replace(/^E[A-Z]+: (.+?), [a-z]+( '.*)?$/, '$1');
}
