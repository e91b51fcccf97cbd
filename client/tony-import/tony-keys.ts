import { isTrue } from './tony-values.ts';

/**
 * Key in job.yaml that corresponds to a TonY key. `remark` explains how the meaning differs. If `to` is null, `remark` explains why there
 * is no such key.
 */
export interface Carrying {
  readonly to: string | null;
  readonly remark: string;
}

const to = (key: string, remark = ''): Carrying => ({ to: key, remark });
const not = (remark: string): Carrying => ({ to: null, remark });

const NOTHING_NEEDED = 'not needed by tony-ts';
const OF_THE_SITE = 'an admin sets this: see quotas in tony-site.yaml';
const OF_HISTORY = 'an admin sets this: see history in tony-site.yaml';
const OF_SECURITY =
  'tony-ts creates a certificate and a secret for each job; for the history server, see the options of tony-ts history serve';
export const NO_DRIVER = "the ApplicationMaster provides Horovod's rendezvous service, so no task runs a driver";
const NO_PLACEMENT = 'YARN placement constraints are not supported; use node labels (nodeLabel)';
const FILES = 'relative paths start from the folder that contains job.yaml; programs must not change these files';
const NO_MASTER_FILES = 'the ApplicationMaster runs no job code; list the files under a role';
const PREPROCESS = 'add a role for the preparation, and set `after` in the roles that must wait for that role';

/** TonY keys that apply to the whole job. If the conversion depends on the value of the key, the entry is a function. */
export const APPLICATION_KEYS: Readonly<Record<string, Carrying | ((value: string) => Carrying)>> = {
  'tony.application.name': to('name'),
  'tony.yarn.queue': to('queue'),
  'tony.application.tags': to('tags'),
  'tony.application.timeout': (value) => (value === '0' ? not('0 means no timeout, which is also the default') : to('timeout')),
  'tony.application.node-label': to('master.nodeLabel, roles.*.nodeLabel'),
  'tony.application.framework': to(
    'framework',
    'pytorch, tensorflow and horovod keep their names; programs of other frameworks receive TONY_RANK and TONY_WORLD_SIZE; the file named by TONY_TASK_FILE contains the addresses of all tasks',
  ),
  'tony.application.distributed-mode': (value) =>
    value.toUpperCase() === 'GANG'
      ? not('tasks with ranks always start together')
      : not('tasks with ranks always start together; if a role must not wait for the others, write `kind: independent`'),
  'tony.application.untracked.jobtypes': to('roles.*.kind: service'),
  'tony.application.sidecar.jobtypes': to('roles.*.kind: sidecar'),
  'tony.application.stop-on-failure-jobtypes': to('roles.*.restart.policy', 'policy never: the first failure of such a task fails the job'),
  'tony.application.fail-on-worker-failure-enabled': (value) =>
    isTrue(value)
      ? not('successPolicy: all is the default')
      : to('successPolicy', 'ended: the job waits for all tracked tasks, and continues without tasks that fail for good'),
  'tony.application.tensorboard-log-dir': to('tensorboard.logdir', "YARN's tracking URL opens TensorBoard"),
  'tony.application.prepare-stage': to(
    'roles.*.after',
    'the second-stage roles wait until the first-stage roles have succeeded; TonY starts them also after a failure',
  ),
  'tony.application.training-stage': to('roles.*.after'),
  'tony.application.enable-preprocess': not(PREPROCESS),
  'tony.application.placement-spec': not(NO_PLACEMENT),
  'tony.application.type': not('the application type is always TONY'),
  'tony.application.num-client-rm-connect-retries': not(NOTHING_NEEDED),
  'tony.application.security.enabled': not(
    '`hadoop.security.authentication` controls this; tony-ts creates a certificate and a secret for each job',
  ),
  'tony.application.hdfs-conf-path': not('tony-ts reads the Hadoop configuration from HADOOP_CONF_DIR'),
  'tony.application.yarn-conf-path': not('tony-ts reads the Hadoop configuration from HADOOP_CONF_DIR'),
  'tony.application.mapred-conf-path': not('tony-ts reads the Hadoop configuration from HADOOP_CONF_DIR'),
  'tony.containers.command': to('command'),
  'tony.containers.envs': to('env'),
  'tony.execution.envs': to('env'),
  'tony.containers.resources': to('files, archives', FILES),
  'tony.containers.placement-spec': not(NO_PLACEMENT),
  'tony.containers.allocation-tags': not(NO_PLACEMENT),
  'tony.docker.enabled': to(
    'roles.*.docker, master.docker',
    'the image must contain everything that the command needs except Node.js, which tony-ts ships',
  ),
  'tony.docker.containers.image': to('roles.*.docker, master.docker'),
  'tony.docker.containers.mount': to('roles.*.docker, master.docker'),
  'tony.src.dir': to('source'),
  'tony.am.memory': to('master.resources.memory', 'the ApplicationMaster needs little memory; the default is 1g'),
  'tony.am.vcores': to('master.resources.vcores'),
  'tony.am.node-label': to('master.nodeLabel'),
  'tony.am.command': to('command', 'converted to a role named worker, with one task'),
  'tony.am.gpus': not('the ApplicationMaster does not use GPUs; request GPUs for a role'),
  'tony.am.retry-count': not(
    'tony-ts restarts individual tasks, and training resumes from the newest checkpoint; see roles.*.restart.maxRestarts',
  ),
  'tony.am.startup-timeout': (value) => (value === '0' ? not('0 means no limit, which is also the default') : to('master.startTimeout')),
  'tony.am.wait-client-signal-stop-timeout-sec': not('the ApplicationMaster does not wait for the client'),
  'tony.am.resources': not(NO_MASTER_FILES),
  'tony.task.heartbeat-interval-ms': to('heartbeat.interval', 'the converted value is at least 100 ms and at most 60 s'),
  'tony.task.max-missed-heartbeats': to('heartbeat.missed'),
  'tony.task.metrics-interval-ms': not('executors report metrics with each heartbeat'),
  'tony.task.executor.execution-timeout-ms': (value) =>
    Number(value) > 0 ? to('roles.*.timeout') : not('0 means no limit, which is also the default'),
  'tony.task.gpu-metrics.enabled': not(NOTHING_NEEDED),
  'tony.task.max-total-instances': not(OF_THE_SITE),
  'tony.container.allocation.timeout': (value) =>
    Number(value) > 0
      ? to('gang.timeout', 'at most 570s; after this time, tony-ts releases the containers and requests all of them again')
      : not('the default is 300s'),
  'tony.container.registration.timeout': not('included in gang.timeout'),
  'tony.worker.timeout': (value) =>
    value === '0'
      ? not('0 means no timeout')
      : not("`timeout` in job.yaml limits the whole job; a role's `timeout` limits each run of its programs"),
  'tony.other.namenodes': not('hdfs:// URIs of other clusters work without configuration'),
  'tony.gpu-exec-path': not('tony-ts finds nvidia-smi on the PATH of each node'),
  'tony.python-exec-path': not('include the interpreter in the command'),
};

/** Keys of the form `tony.ROLE.KEY`. Maps each KEY to the corresponding key in `roles.ROLE`. */
export const ROLE_KEYS: Readonly<Record<string, Carrying>> = {
  instances: to('instances'),
  memory: to('resources.memory'),
  vcores: to('resources.vcores'),
  gpus: to('resources.gpus'),
  'node-label': to('nodeLabel'),
  command: to('command'),
  resources: to('files, archives', FILES),
  'max-instances': not(OF_THE_SITE),
  'placement-spec': not(NO_PLACEMENT),
  'allocation-tags': not(NO_PLACEMENT),
  'depends-on': not('TonY itself ignores this key; to make a role wait, write `after`'),
};

/** TonY's keys that define role groups and dependencies on them. GROUP and ROLE stand for names, as in the documentation. */
export const ORDER_KEYS: Readonly<Record<string, Carrying>> = {
  'tony.application.group.GROUP': to('roles.*.endAfter.role'),
  'tony.application.dependency.ROLE.timeout.after.GROUP': to('roles.ROLE.endAfter.timeout', 'the time is in seconds'),
  'tony.application.dependency.ROLE.timeout.after.GROUP.ignored': to(
    'roles.ROLE.endAfter.late',
    'with `true`, tony-ts stops the tasks, whereas TonY only stops waiting for them',
  ),
};

/** Patterns for keys that have no counterpart in job.yaml. */
export const OTHER_KEYS: readonly { readonly pattern: RegExp; readonly remark: string }[] = [
  { pattern: /^tony\.task\.max-total-/, remark: OF_THE_SITE },
  { pattern: /^tony\.task\..*(jvm\.opts|timeout|depth)/, remark: NOTHING_NEEDED },
  { pattern: /^tony\.application\.hadoop\./, remark: 'containers do not need Hadoop, and tony-ts does not ship it' },
  {
    pattern: /^tony\.docker\./,
    remark: 'to set the image of a single role or of the ApplicationMaster, see roles.*.docker and master.docker',
  },
  { pattern: /^tony\.horovod\./, remark: NO_DRIVER },
  { pattern: /^tony\.history\./, remark: OF_HISTORY },
  { pattern: /^tony\.keytab\./, remark: 'set the principal and its keytab under `kerberos` in tony-site.yaml' },
  { pattern: /^tony\.(portal|https?|secret)\./, remark: OF_SECURITY },
  { pattern: /^tony\.version-info\./, remark: NOTHING_NEEDED },
];
