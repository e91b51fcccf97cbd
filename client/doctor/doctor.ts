import { randomUUID } from 'node:crypto';
import { statfs } from 'node:fs/promises';
import { counted, formatBytes } from '../../conf/values/quantities.ts';
import { formatMemory } from '../../conf/values/units.ts';
import { trustOf } from '../../hadoop/configuration/authorities.ts';
import { homesOf, locationOf, placeOf } from '../../hadoop/configuration/file-systems/hdfs-place.ts';
import { includesQueue, queuesForSubmission } from '../../hadoop/configuration/login/queue-access.ts';
import { groupsOfUser } from '../../hadoop/configuration/login/user-groups.ts';
import { propertiesOfDaemon } from '../../hadoop/configuration/remote/remote-configuration.ts';
import { WebHdfs } from '../../hadoop/hdfs/web-hdfs.ts';
import { ResourceManager } from '../../hadoop/yarn/resource-manager.ts';
import { checkOptions, type OptionNames } from '../../platform/check-options.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { makeFolders } from '../../platform/files/make-folders.ts';
import { joinUri } from '../../storage/uri.ts';
import { CLUSTER_OPTIONS, type ClusterOptions, type HadoopCluster, openCluster } from '../cluster/cluster.ts';
import { knownNames, unknownNameLines, unknownNames } from '../cluster/unknown-quota-names.ts';
import { sharedFolder } from '../records/history-place.ts';
import { cacheFolder } from '../runtime/cache.ts';
import { findRuntime } from '../runtime/ensure-runtime.ts';
import { openStaging, refuseLocalStaging } from '../staging/staging.ts';
import { type Check, type CheckResult, diagnose, type Finding, fail, ok, warn } from './diagnosis.ts';
import {
  certificatesVerdict,
  clockVerdict,
  hdfsAccessOf,
  historyVerdict,
  homesVerdict,
  homeVerdict,
  loginVerdict,
  masterLoss,
  secretsVerdict,
  settingsVerdict,
  siteVerdict,
} from './verdicts.ts';

/** Maximum number of users' history folders to check. */
const MOST_USERS = 10_000;
/** Minimum memory (MiB) for Node.js, TensorFlow.js and a small model. */
const LEAST_CONTAINER_MB = 1024;
/** Maximum number of nodes to query. A few are enough, because all nodes usually have the same settings. */
const NODES_TO_ASK = 3;
/** Disk space (MB) to allow for an unpacked runtime in a node's localisation cache. Its actual size is 609 MB. */
const RUNTIME_MB = 700;
/** Disk space (bytes) for three replicas of the runtime archive (214 MB each). HDFS quotas count all replicas. */
const HDFS_BYTES = 700e6;
/** Number of files and folders that a user's first job creates, including its staging folder, history, checkpoints and summaries. */
const HDFS_NAMES = 100;
const BUILD_BYTES = 2e9;

export interface DoctorOptions extends ClusterOptions {
  /** YARN queue to check. Default: `default`. */
  readonly queue?: string | undefined;
}

const DOCTOR_OPTIONS: OptionNames<DoctorOptions> = { ...CLUSTER_OPTIONS, queue: true };

/** Checks everything that jobs need from a cluster. Reports problems as findings, and never throws. */
export async function* doctor(options: DoctorOptions = {}): AsyncGenerator<Finding, void> {
  checkOptions('doctor', options, DOCTOR_OPTIONS);
  const { checks, close } = clusterChecks(options);
  try {
    yield* diagnose(checks);
  } finally {
    close();
  }
}

interface Opened {
  readonly cluster: HadoopCluster;
  readonly resourceManager: ResourceManager;
}

function clusterChecks(options: DoctorOptions): { readonly checks: readonly Check[]; readonly close: () => void } {
  const { env: environment = process.env, queue: wanted = 'default' } = options;
  let opened: Opened | null = null;
  const connected = () => {
    if (opened === null) {
      throw new Error('the configuration was not read');
    }
    return opened;
  };
  const open = async (): Promise<CheckResult> => {
    const cluster = await openCluster(options);
    opened = { cluster, resourceManager: ResourceManager.of(cluster.configuration, cluster.user) };
    const from = options.resourceManager ?? (environment.HADOOP_CONF_DIR || environment.HADOOP_HOME || '');
    return ok(`from ${from}: ${cluster.configuration.defaultFs}, ${cluster.configuration.resourceManagers.join(', ')}`);
  };
  const checks: Check[] = [
    { name: 'configuration', needs: [], look: open },
    { name: 'login', needs: ['configuration'], look: async () => loginVerdict(connected().cluster) },
    { name: 'secrets', needs: ['configuration'], look: async () => secretsVerdict(connected().cluster.configuration) },
    { name: 'certificates', needs: ['configuration'], look: async () => certificatesVerdict(connected().cluster.configuration) },
    { name: 'proxies', needs: [], look: async () => proxies(environment) },
    { name: 'ResourceManager', needs: ['configuration'], look: async () => version(connected().resourceManager) },
    { name: 'NameNode', needs: ['configuration'], look: async () => nameNode(connected().cluster) },
    { name: 'identity', needs: ['NameNode'], look: async () => identity(connected().cluster) },
    { name: 'clocks', needs: ['ResourceManager'], look: async () => clockVerdict(connected().cluster) },
    { name: 'REST submission', needs: ['ResourceManager'], look: async () => submission(connected().resourceManager) },
    { name: 'cluster settings', needs: ['ResourceManager'], look: async () => clusterSettings(connected().cluster) },
    { name: 'queue', needs: ['ResourceManager'], look: async () => queue(connected().resourceManager, wanted) },
    { name: 'queue access', needs: ['queue'], look: async () => queueAccess(connected().cluster, wanted) },
    { name: 'nodes', needs: ['ResourceManager'], look: async () => nodes(connected().resourceManager) },
    { name: 'node settings', needs: ['nodes'], look: async () => nodeSettings(connected()) },
    { name: 'failover', needs: ['ResourceManager'], look: async () => masterFailover(connected().cluster) },
    { name: 'staging folder', needs: ['identity'], look: async () => staging(connected().cluster) },
    { name: 'HDFS space', needs: ['staging folder'], look: async () => hdfsSpace(connected().cluster) },
    { name: 'local disk', needs: [], look: async () => localDisk(environment) },
    { name: 'site file', needs: ['NameNode'], look: async () => siteFile(connected().cluster) },
    { name: 'histories', needs: ['site file'], look: async () => histories(connected().cluster) },
    { name: 'home folders', needs: ['site file'], look: async () => homes(connected().cluster) },
    { name: 'quotas', needs: ['site file', 'REST submission'], look: async () => quotas(connected()) },
  ];
  const close = (): void => {
    opened?.resourceManager.close();
    opened?.cluster.close();
  };
  return { checks, close };
}

function proxies(environment: NodeJS.ProcessEnv): CheckResult {
  const set = ['http_proxy', 'HTTP_PROXY', 'https_proxy', 'HTTPS_PROXY'].filter((name) => environment[name]);
  return ok(set.length === 0 ? 'none in the environment' : `not used for connections to the cluster: ${set.join(', ')}`);
}

async function version(resourceManager: ResourceManager): Promise<CheckResult> {
  const { hadoopVersion, state, haState } = await resourceManager.clusterInfo();
  return ok(`Hadoop ${hadoopVersion}, ${state}, ${haState}`);
}

async function nameNode({ configuration, storage }: HadoopCluster): Promise<CheckResult> {
  if (configuration.defaultFs.startsWith('file:')) {
    return fail(
      `the configuration names no file system of a cluster: fs.defaultFS is ${configuration.defaultFs}, this machine's disk`,
      'Set fs.defaultFS in core-site.xml, such as hdfs://namenode:8020, and check that HADOOP_CONF_DIR is the complete client configuration.',
    );
  }
  const root = await storage.stat(joinUri(configuration.defaultFs, '/'));
  return root === null
    ? fail('has no root folder', 'Format the file system.')
    : ok(hdfsAccessOf(configuration) || `${configuration.defaultFs} answers`);
}

async function identity({ configuration, user, home, storage }: HadoopCluster): Promise<CheckResult> {
  const groups = await groupsOfUser(configuration, user, user).catch((error: unknown) => {
    if (error instanceof TonyError && (error.code === 'HDFS_UNREACHABLE' || error.code === 'RPC_UNREACHABLE')) {
      return error;
    }
    throw error;
  });
  if (groups instanceof TonyError && user !== 'dr.who') {
    return warn(
      `${user}; the groups are unknown: ${groups.message}`,
      "Open the NameNode's RPC port to this machine. Only group quotas need this port.",
    );
  }
  const known = groups instanceof TonyError ? [] : groups;
  const text = `${user}, ${known.length === 0 ? 'in no group known to the cluster' : `in ${known.join(', ')}`}`;
  if (user === 'dr.who') {
    return fail(text, 'Set HADOOP_USER_NAME. Hadoop uses dr.who for requests without a user name.');
  }
  return homeVerdict(text, user, home, await storage.stat(home));
}

async function siteFile({ site, storage, configuration }: HadoopCluster): Promise<CheckResult> {
  return siteVerdict(await site(), storage, configuration.defaultFs);
}

async function histories({ site, storage, home }: HadoopCluster): Promise<CheckResult> {
  const folder = sharedFolder(await site(), home);
  if (folder === null) {
    return historyVerdict(null, null);
  }
  const entry = await storage.stat(folder);
  return historyVerdict(folder, entry, entry === null ? [] : await storage.list(folder, { most: MOST_USERS }).catch(() => []));
}

async function submission(resourceManager: ResourceManager): Promise<CheckResult> {
  const { applicationId, maximum } = await resourceManager.newApplication();
  const text = `allowed (${applicationId}); the largest container has ${describeResources(maximum)}`;
  return (maximum['memory-mb'] ?? 0) < LEAST_CONTAINER_MB
    ? fail(text, `Raise yarn.scheduler.maximum-allocation-mb: Node.js with TensorFlow needs ${formatMemory(LEAST_CONTAINER_MB)}.`)
    : ok(text);
}

async function queue(resourceManager: ResourceManager, wanted: string): Promise<CheckResult> {
  const queues = await resourceManager.queues();
  const found = queues.find(({ name, path }) => name === wanted || path === wanted || path === `root.${wanted}`);
  if (found === undefined) {
    const known = queues.map(({ name }) => name).join(', ');
    return fail(`queue ${wanted} does not exist`, `Choose one of these queues with --queue and as \`queue\` in job.yaml: ${known}.`);
  }
  const text = `${found.path}: ${found.state}, ${Math.round(found.capacity)} % of the cluster, ${Math.round(found.usedCapacity)} % of it used`;
  return found.state === 'RUNNING' ? ok(text) : fail(text, 'Choose another queue, or ask the cluster admin to start it.');
}

async function nodes(resourceManager: ResourceManager): Promise<CheckResult> {
  const all = await resourceManager.nodes();
  const usable = all.filter(({ state }) => state === 'RUNNING');
  const largest = [...usable].sort((a, b) => (b.total['memory-mb'] ?? 0) - (a.total['memory-mb'] ?? 0))[0];
  if (largest === undefined) {
    return fail('no node is active', 'Start the NodeManagers. `yarn node -list -all` shows their state.');
  }
  const gpus = usable.reduce((sum, { total }) => sum + (total['yarn.io/gpu'] ?? 0), 0);
  const unhealthy = all.length - usable.length;
  const counts = `${usable.length} active${unhealthy > 0 ? `, ${unhealthy} unhealthy` : ''}; ${gpus === 0 ? 'no GPUs' : `${gpus} GPUs`}`;
  const text = `${counts}; the largest (${largest.host}) has ${describeResources(largest.total)}`;
  if ((largest.total['memory-mb'] ?? 0) < LEAST_CONTAINER_MB) {
    return fail(text, `Node.js with TensorFlow needs ${formatMemory(LEAST_CONTAINER_MB)}: raise yarn.nodemanager.resource.memory-mb.`);
  }
  return unhealthy > 0 ? warn(text, '`yarn node -list -all` shows why nodes are unhealthy.') : ok(text);
}

async function homes({ storage, configuration, site }: HadoopCluster): Promise<CheckResult> {
  return homesVerdict(storage, homesOf(configuration), Object.keys((await site()).quotas.users));
}

async function quotas({ cluster, resourceManager }: Opened): Promise<CheckResult> {
  const site = await cluster.site();
  const unknown = unknownNames(site.quotas, await knownNames(resourceManager));
  if (unknown.length === 0) {
    return ok('all resource types and queues exist in the cluster');
  }
  return warn(
    unknownNameLines(unknown).join('; '),
    `Correct the names in ${site.from}, or add the resource types and queues to the cluster.`,
  );
}

/**
 * Checks whether the user may submit to the queue. Uses Hadoop RPC, because the REST API does not report the queues that a user may use.
 */
async function queueAccess({ configuration, user }: HadoopCluster, wanted: string): Promise<CheckResult> {
  let allowed: readonly string[];
  try {
    allowed = await queuesForSubmission(configuration, user);
  } catch (error) {
    const isUnreachable = !(error instanceof TonyError) || error.code === 'RM_UNREACHABLE';
    const step = 'Open the port of yarn.resourcemanager.address to this machine. Only this check needs the port.';
    return warn(messageOf(error), isUnreachable ? step : error.hint);
  }
  if (includesQueue(allowed, wanted)) {
    return ok(`${user} may submit to ${wanted}`);
  }
  const others = allowed.length === 0 ? 'none' : allowed.join(', ');
  return fail(
    `${user} may not submit to ${wanted}`,
    `Choose a queue to which you may submit (${others}), or ask the cluster admin to add you to its acl_submit_applications.`,
  );
}

type Settings = ReadonlyMap<string, string>;

/**
 * Checks the settings of the first daemon that responds.
 * @param what finding if no daemon responds
 * @param remedy next step if no daemon responds
 */
async function judgeSettings(
  { login, configuration }: HadoopCluster,
  addresses: readonly string[],
  judge: (settings: Settings, address: string) => CheckResult,
  { what, remedy }: { readonly what: string; readonly remedy: string },
): Promise<CheckResult> {
  let failure = 'none has a web server';
  for (const address of addresses) {
    try {
      const properties = await propertiesOfDaemon(new URL(address), { login, trust: trustOf(configuration) });
      return judge(new Map(properties.map(({ name, value }) => [name, value])), address);
    } catch (error) {
      failure = `${address}: ${messageOf(error)}`;
    }
  }
  return warn(`${what} (${failure})`, remedy);
}

async function clusterSettings(cluster: HadoopCluster): Promise<CheckResult> {
  return judgeSettings(cluster, cluster.configuration.resourceManagers, settingsVerdict, {
    what: 'the ResourceManager does not show its settings',
    remedy: "Open the ResourceManager's page /conf in a browser, or ask the cluster admin.",
  });
}

/** Checks one node's localisation cache and memory settings. */
async function nodeSettings({ cluster, resourceManager }: Opened): Promise<CheckResult> {
  const scheme = cluster.configuration.get('yarn.http.policy') === 'HTTPS_ONLY' ? 'https' : 'http';
  const addresses = (await resourceManager.nodes()).flatMap(({ state, nodeHttp }) =>
    state === 'RUNNING' && nodeHttp ? [`${scheme}://${nodeHttp}`] : [],
  );
  return judgeSettings(cluster, addresses.slice(0, NODES_TO_ASK), nodeVerdict, {
    what: 'the nodes do not report their settings',
    remedy: "To check them, open the NodeManagers' web ports to this machine. Only this check needs the ports.",
  });
}

/** Checks the ResourceManager's own settings, because the local configuration may contain only client settings. */
async function masterFailover(cluster: HadoopCluster): Promise<CheckResult> {
  return judgeSettings(cluster, cluster.configuration.resourceManagers, masterLoss, {
    what: 'the ResourceManager does not report its intervals',
    remedy: "To check them, give this user access to the ResourceManager's page /conf. Only this check needs the access.",
  });
}

function nodeVerdict(settings: Settings, address: string): CheckResult {
  const cacheMb = Number(settings.get('yarn.nodemanager.localizer.cache.target-size-mb') ?? 0);
  const checksVirtual = settings.get('yarn.nodemanager.vmem-check-enabled') === 'true';
  const text = `${address.replace(/^https?:\/\//, '')} keeps ${formatMemory(cacheMb)} of unpacked archives and ${checksVirtual ? 'checks' : 'does not check'} virtual memory`;
  if (cacheMb < RUNTIME_MB) {
    return warn(
      text,
      `Raise yarn.nodemanager.localizer.cache.target-size-mb above ${RUNTIME_MB}. Otherwise, nodes unpack Node.js and TensorFlow for each job.`,
    );
  }
  return checksVirtual
    ? warn(
        text,
        'Request at least 1g for each task, or set yarn.nodemanager.vmem-check-enabled to false, because Node.js maps far more memory than it uses.',
      )
    : ok(text);
}

const FREE_SPACE = 'Free up space (tony-ts cache prune, tony-ts history prune), or request more';

async function hdfsSpace({ configuration, user, home }: HadoopCluster): Promise<CheckResult> {
  const location = locationOf(home);
  const target = location === null ? null : placeOf(configuration, location).target;
  if (target === null) {
    return ok(`your home is ${home}`);
  }
  const { fileSystem, path } = target;
  const hdfs = WebHdfs.of(configuration, fileSystem, user);
  try {
    const { ofQuota, ofNames, ofFileSystem } = await hdfs.room(path);
    const parts = [
      ...(ofFileSystem === null ? [] : [`${formatBytes(ofFileSystem)} are free`]),
      ...(ofQuota === null ? [] : [`${formatBytes(ofQuota)} left in your space quota`]),
      ...(ofNames === null ? [] : [`${ofNames} files and folders left in your name quota`]),
    ];
    const least = Math.min(ofQuota ?? Number.POSITIVE_INFINITY, ofFileSystem ?? Number.POSITIVE_INFINITY);
    if (parts.length === 0) {
      return warn('the NameNode does not report the free space', '`hdfs dfs -df -h /` and `hdfs dfs -count -q -h` show how much is free.');
    }
    if (ofNames !== null && ofNames < HDFS_NAMES) {
      return fail(parts.join('; '), `${FREE_SPACE}: a job writes up to ${HDFS_NAMES} files and folders.`);
    }
    return least < HDFS_BYTES
      ? fail(parts.join('; '), `${FREE_SPACE}: the runtime takes ${formatBytes(HDFS_BYTES)} including replicas.`)
      : ok(parts.join('; '));
  } finally {
    hdfs.close();
  }
}

async function localDisk(environment: NodeJS.ProcessEnv): Promise<CheckResult> {
  const folder = cacheFolder(environment);
  const runtime = await findRuntime().catch((error: unknown) => {
    if (error instanceof TonyError && error.code === 'FOLDER_DENIED') {
      throw error;
    }
    return null;
  });
  if (runtime !== null) {
    return ok(`the runtime has been built (${formatBytes(runtime.size)}, in ${folder})`);
  }
  await makeFolders(folder, 0o755);
  const { bavail, bsize } = await statfs(folder);
  const text = `${formatBytes(bavail * bsize)} free in ${folder}; the runtime has not been built yet`;
  return bavail * bsize < BUILD_BYTES
    ? fail(text, `Building it takes ${formatBytes(BUILD_BYTES)}. Free up disk space, or set TONY_CACHE_DIR to another folder.`)
    : ok(`${text}: the first submission builds it`);
}

async function staging({ storage, root, user }: HadoopCluster): Promise<CheckResult> {
  refuseLocalStaging(root);
  await openStaging({ storage, root, onEvent: () => {} }, user);
  const file = joinUri(root, `doctor-${randomUUID()}`);
  const bytes = Buffer.alloc(64 * 1024, 1);
  try {
    await storage.write(file, bytes);
    const read = await storage.read(file);
    if (!bytes.equals(read)) {
      return fail(`a file in ${root} did not contain the bytes that were written`, 'Run hdfs fsck on this folder.');
    }
  } finally {
    await storage.remove(file);
  }
  return ok(`${root}: ${formatBytes(bytes.length)} written, read and removed`);
}

function describeResources(resources: Readonly<Record<string, number>>): string {
  const { 'memory-mb': memory = 0, vcores = 0, ...other } = resources;
  const more = Object.entries(other).map(([name, amount]) => `${amount} ${name}`);
  return [formatMemory(memory), counted(vcores, 'vcore'), ...more].join(', ');
}
