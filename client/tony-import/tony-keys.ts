/** The equivalent of a TonY key in job.yaml (null: none), and a remark about it. */
export interface Carrying {
  readonly to: string | null;
  readonly remark: string;
}

const to = (key: string, remark = ''): Carrying => ({ to: key, remark });
const not = (remark: string): Carrying => ({ to: null, remark });

const NOTHING_NEEDED = 'nothing is needed for it here';
const OF_THE_SITE = "the admin's: see quotas in tony-site.yaml";
const OF_HISTORY = "the admin's: see history in tony-site.yaml";
const OF_SECURITY = 'each job has its own certificate and secret; the history server has options of its own';
const NO_PLACEMENT = 'YARN placement constraints are not supported; node labels are (nodeLabel)';
const NO_DOCKER = "containers are not started with Docker; programs run on the nodes, with Node from the job's runtime";
const NO_FILES = 'put the files into the source folder, or name them under data, from where programs read them';
const NO_STAGES = 'roles start together; run what prepares as a job of its own';

/** Keys of the whole job, by name. */
export const APPLICATION_KEYS: Readonly<Record<string, Carrying | ((value: string) => Carrying)>> = {
  'tony.application.name': to('name'),
  'tony.yarn.queue': to('queue'),
  'tony.application.tags': to('tags'),
  'tony.application.timeout': (value) => (value === '0' ? not('0 is none, as when left out') : to('timeout')),
  'tony.application.node-label': to('master.nodeLabel, roles.*.nodeLabel'),
  'tony.application.framework': (value) =>
    to(
      'framework',
      `programs find TONY_RANK and TONY_WORLD_SIZE, and the addresses of all in the file TONY_TASK_FILE; not the variables of ${value}`,
    ),
  'tony.application.distributed-mode': (value) =>
    value.toUpperCase() === 'GANG'
      ? not('all tasks of a job start together here')
      : not('all tasks of a job start together; roles that need not wait are jobs of their own'),
  'tony.application.untracked.jobtypes': to('roles.*.untracked'),
  'tony.application.sidecar.jobtypes': to('roles.*.sidecar'),
  'tony.application.stop-on-failure-jobtypes': to('roles.*.restart.policy', 'never: the first failure of such a task fails the job'),
  'tony.application.fail-on-worker-failure-enabled': (value) =>
    value === 'false' ? to('success', 'chief: the end of the chief decides') : not('success: all is what holds when left out'),
  'tony.application.tensorboard-log-dir': to('tensorboard.logdir', "behind YARN's tracking URL"),
  'tony.application.prepare-stage': not(NO_STAGES),
  'tony.application.training-stage': not(NO_STAGES),
  'tony.application.enable-preprocess': not(NO_STAGES),
  'tony.application.placement-spec': not(NO_PLACEMENT),
  'tony.application.type': not('the type is always TONY'),
  'tony.application.num-client-rm-connect-retries': not(NOTHING_NEEDED),
  'tony.application.security.enabled': not(
    'hadoop.security.authentication decides; every job has its own certificate and secret',
  ),
  'tony.application.hdfs-conf-path': not('HADOOP_CONF_DIR names the folder of the Hadoop configuration'),
  'tony.application.yarn-conf-path': not('HADOOP_CONF_DIR names the folder of the Hadoop configuration'),
  'tony.application.mapred-conf-path': not('HADOOP_CONF_DIR names the folder of the Hadoop configuration'),
  'tony.containers.command': to('command'),
  'tony.containers.envs': to('env'),
  'tony.execution.envs': to('env'),
  'tony.containers.resources': not(NO_FILES),
  'tony.containers.placement-spec': not(NO_PLACEMENT),
  'tony.containers.allocation-tags': not(NO_PLACEMENT),
  'tony.src.dir': to('source'),
  'tony.am.memory': to('master.memory', 'far less is enough: 1g is what holds when left out'),
  'tony.am.vcores': to('master.vcores'),
  'tony.am.node-label': to('master.nodeLabel'),
  'tony.am.command': to('command', 'as a role worker with one task'),
  'tony.am.gpus': not('the ApplicationMaster computes nothing; give GPUs to a role'),
  'tony.am.retry-count': not('tasks are restarted one by one, training goes on from its checkpoint: see roles.*.restart.maxRestarts'),
  'tony.am.startup-timeout': not(NOTHING_NEEDED),
  'tony.am.wait-client-signal-stop-timeout-sec': not('the ApplicationMaster waits for no client'),
  'tony.am.resources': not(NO_FILES),
  'tony.task.heartbeat-interval-ms': to('heartbeat.interval', 'from 100 ms to 60 s'),
  'tony.task.max-missed-heartbeats': to('heartbeat.missed'),
  'tony.task.metrics-interval-ms': not('measured with each heartbeat'),
  'tony.task.gpu-metrics.enabled': not(NOTHING_NEEDED),
  'tony.task.max-total-instances': not(OF_THE_SITE),
  'tony.container.allocation.timeout': (value) =>
    Number(value) > 0
      ? to('gang.timeout', 'at most 570s; then what is missing is asked for again')
      : not('300s is what holds when left out'),
  'tony.container.registration.timeout': not('part of gang.timeout'),
  'tony.worker.timeout': (value) =>
    value === '0' ? not('0 is none') : not('timeout ends the whole job; use `timeout 60 COMMAND` for one program'),
  'tony.other.namenodes': not('hdfs:// URIs of other clusters work as they are'),
  'tony.gpu-exec-path': not('nvidia-smi is looked for on the PATH of the nodes'),
  'tony.python-exec-path': not('write the interpreter into the command'),
};

/** Keys `tony.ROLE.KEY`, by KEY, with their equivalents within `roles.ROLE`. */
export const ROLE_KEYS: Readonly<Record<string, Carrying>> = {
  instances: to('instances'),
  memory: to('resources.memory'),
  vcores: to('resources.vcores'),
  gpus: to('resources.gpus'),
  'node-label': to('nodeLabel'),
  command: to('command'),
  resources: not(NO_FILES),
  'max-instances': not(OF_THE_SITE),
  'placement-spec': not(NO_PLACEMENT),
  'allocation-tags': not(NO_PLACEMENT),
  'depends-on': not('TonY itself never reads it; roles start together'),
};

/** Patterns of keys without an equivalent. */
export const OTHER_KEYS: readonly { readonly pattern: RegExp; readonly remark: string }[] = [
  { pattern: /^tony\.task\.max-total-/, remark: OF_THE_SITE },
  { pattern: /^tony\.task\..*(jvm\.opts|timeout|depth)/, remark: NOTHING_NEEDED },
  {
    pattern: /^tony\.application\.(group|dependency)\./,
    remark: 'a time limit after the end of other roles is not supported; timeout ends the whole job',
  },
  { pattern: /^tony\.application\.hadoop\./, remark: 'no Hadoop is shipped or needed in containers' },
  { pattern: /^tony\.docker\./, remark: NO_DOCKER },
  { pattern: /^tony\.horovod\./, remark: 'training/ has its own all-reduce: strategy: all-reduce' },
  { pattern: /^tony\.history\./, remark: OF_HISTORY },
  { pattern: /^tony\.(portal|keytab|https?|secret)\./, remark: OF_SECURITY },
  { pattern: /^tony\.version-info\./, remark: NOTHING_NEEDED },
];
