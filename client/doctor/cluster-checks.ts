import { randomUUID } from 'node:crypto';
import { formatBytes } from '../../conf/quantities.ts';
import { formatDuration, formatMemory } from '../../conf/units.ts';
import { ResourceManager } from '../../hadoop/resource-manager.ts';
import { groupsOfUser } from '../../hadoop/user-groups.ts';
import { joinUri } from '../../storage/uri.ts';
import { type Cluster, type ClusterOptions, openCluster } from '../cluster.ts';
import { openStaging } from '../staging.ts';
import { bad, type Check, doubtful, good, type Verdict } from './diagnosis.ts';

/** Tokens are good for hours and leases for seconds; clocks that differ by more than this make logs lie. */
const SKEW_MS = 5_000;
/** What Node, TensorFlow and a small model need. */
const LEAST_CONTAINER_MB = 1024;
const CLOCK_TIMEOUT_MS = 5_000;

export interface DoctorOptions extends ClusterOptions {
  readonly queue: string;
}

/** Everything that a job needs of a cluster, in the order in which it is needed. */
export function clusterChecks(options: DoctorOptions): { readonly checks: readonly Check[]; readonly close: () => void } {
  const environment = options.environment ?? process.env;
  let opened: { readonly cluster: Cluster; readonly resourceManager: ResourceManager } | null = null;
  const there = () => {
    if (opened === null) throw new Error('the configuration was not read');
    return opened;
  };
  const checks: Check[] = [
    {
      name: 'configuration',
      needs: [],
      look: async () => {
        const cluster = await openCluster(options);
        opened = { cluster, resourceManager: ResourceManager.of(cluster.configuration, cluster.user) };
        const from = options.resourceManager ?? environment.HADOOP_CONF_DIR ?? environment.HADOOP_HOME ?? '';
        return good(`of ${from}: ${cluster.configuration.defaultFs}, ${cluster.configuration.resourceManagers.join(', ')}`);
      },
    },
    {
      name: 'proxies',
      needs: [],
      look: async () => {
        const set = ['http_proxy', 'HTTP_PROXY', 'https_proxy', 'HTTPS_PROXY'].filter((name) => environment[name]);
        return good(set.length === 0 ? 'none in the environment' : `${set.join(', ')}: not used for the cluster`);
      },
    },
    {
      name: 'ResourceManager',
      needs: ['configuration'],
      look: async () => {
        const { hadoopVersion, state, haState } = await there().resourceManager.clusterInfo();
        const text = `Hadoop ${hadoopVersion}, ${state}, ${haState}`;
        return /^[0-2]\./.test(hadoopVersion) ? bad(text, 'tony-ts speaks the protocols of Hadoop 3; upgrade the cluster.') : good(text);
      },
    },
    {
      name: 'NameNode',
      needs: ['configuration'],
      look: async () => {
        const { cluster } = there();
        const root = await cluster.storage.stat(joinUri(cluster.configuration.defaultFs, '/'));
        return root === null ? bad('has no root folder', 'Format the file system.') : good(`answers at ${cluster.configuration.defaultFs}`);
      },
    },
    { name: 'who am I', needs: ['NameNode'], look: async () => await identity(there().cluster) },
    { name: 'clocks', needs: ['ResourceManager'], look: async () => await clocks(there().cluster.configuration.resourceManagers) },
    {
      name: 'submission by REST',
      needs: ['ResourceManager'],
      look: async () => {
        const { applicationId, maximum } = await there().resourceManager.newApplication();
        const memory = maximum['memory-mb'] ?? 0;
        const text = `allowed (${applicationId}); the largest container has ${describeResources(maximum)}`;
        return memory < LEAST_CONTAINER_MB
          ? bad(text, `Raise yarn.scheduler.maximum-allocation-mb: Node with TensorFlow needs ${formatMemory(LEAST_CONTAINER_MB)}.`)
          : good(text);
      },
    },
    { name: 'queue', needs: ['ResourceManager'], look: async () => await queue(there().resourceManager, options.queue) },
    { name: 'nodes', needs: ['ResourceManager'], look: async () => await nodes(there().resourceManager) },
    { name: 'staging folder', needs: ['who am I'], look: async () => await staging(there().cluster) },
    {
      name: 'site file',
      needs: ['NameNode'],
      look: async () => {
        const { from } = await there().cluster.site();
        return good(from ?? 'none: the defaults hold');
      },
    },
  ];
  const close = (): void => {
    opened?.resourceManager.close();
    opened?.cluster.close();
  };
  return { checks, close };
}

async function identity({ configuration, user, home, storage }: Cluster): Promise<Verdict> {
  const groups = await groupsOfUser(configuration, user, user);
  const text = `${user}, ${groups.length === 0 ? 'in no group that the cluster knows' : `in ${groups.join(', ')}`}`;
  if (user === 'dr.who') return bad(text, 'Set HADOOP_USER_NAME: dr.who is everybody who does not say who they are.');
  const folder = await storage.stat(home);
  if (folder !== null) return good(text);
  return doubtful(
    `${text}; ${home} is not there`,
    `Ask the admin of the cluster to make it (hdfs dfs -mkdir ${home} && hdfs dfs -chown ${user} ${home}).`,
  );
}

async function clocks(addresses: readonly string[]): Promise<Verdict> {
  const skews = await Promise.all(addresses.map(skewOf));
  const [worst] = skews.filter((skew) => skew !== null).sort((a, b) => Math.abs(b.ms) - Math.abs(a.ms));
  if (worst === undefined)
    return doubtful('the ResourceManager says no time', 'Compare the clocks of the nodes with that of this machine.');
  const text = `that of ${worst.address} is ${formatDuration(Math.abs(worst.ms))} ${worst.ms < 0 ? 'behind' : 'ahead'}`;
  return Math.abs(worst.ms) > SKEW_MS
    ? doubtful(text, 'Run a time service (chrony, ntpd) on all machines: times in logs and histories are wrong otherwise.')
    : good(`agree within ${formatDuration(SKEW_MS)}`);
}

/** By the Date of an answer, which has whole seconds; null when there is none. */
async function skewOf(address: string): Promise<{ readonly address: string; readonly ms: number } | null> {
  try {
    const before = Date.now();
    const response = await fetch(`${address}/ws/v1/cluster/info`, { signal: AbortSignal.timeout(CLOCK_TIMEOUT_MS), redirect: 'manual' });
    await response.body?.cancel();
    // Hadoop says it twice.
    const said = Date.parse(/^[^,]*,[^,]*/.exec(response.headers.get('date') ?? '')?.[0] ?? '');
    const here = (before + Date.now()) / 2;
    return Number.isNaN(said) ? null : { address, ms: Math.round(said + 500 - here) };
  } catch {
    return null;
  }
}

async function queue(resourceManager: ResourceManager, wanted: string): Promise<Verdict> {
  const queues = await resourceManager.queues();
  const found = queues.find(({ name, path }) => name === wanted || path === wanted || path === `root.${wanted}`);
  if (found === undefined) {
    const known = queues.map(({ name }) => name).join(', ');
    return bad(`there is no queue ${wanted}`, `Name one of these by --queue, and as \`queue\` in job.yaml: ${known}.`);
  }
  const text = `${found.path}: ${found.state}, ${Math.round(found.capacity)} % of the cluster, ${Math.round(found.usedCapacity)} % of that in use`;
  return found.state === 'RUNNING' ? good(text) : bad(text, 'Choose another queue, or ask the admin of the cluster to start it.');
}

async function nodes(resourceManager: ResourceManager): Promise<Verdict> {
  const all = await resourceManager.nodes();
  const usable = all.filter(({ state }) => state === 'RUNNING');
  const largest = [...usable].sort((a, b) => (b.total['memory-mb'] ?? 0) - (a.total['memory-mb'] ?? 0))[0];
  if (largest === undefined) return bad('none is in use', 'Start the NodeManagers; yarn node -list -all says how they are.');
  const gpus = usable.reduce((sum, { total }) => sum + (total['yarn.io/gpu'] ?? 0), 0);
  const unhealthy = all.length - usable.length;
  const counts = `${usable.length} in use${unhealthy > 0 ? `, ${unhealthy} unhealthy` : ''}; ${gpus === 0 ? 'no GPUs' : `${gpus} GPUs`}`;
  const text = `${counts}; the largest (${largest.host}) has ${describeResources(largest.total)}`;
  if ((largest.total['memory-mb'] ?? 0) < LEAST_CONTAINER_MB)
    return bad(text, `Node with TensorFlow needs ${formatMemory(LEAST_CONTAINER_MB)}: raise yarn.nodemanager.resource.memory-mb.`);
  return unhealthy > 0 ? doubtful(text, 'yarn node -list -all says what the others suffer from.') : good(text);
}

async function staging({ storage, root, user }: Cluster): Promise<Verdict> {
  await openStaging({ storage, root, onEvent: () => {} }, user);
  const file = joinUri(root, `doctor-${randomUUID()}`);
  const bytes = Buffer.alloc(64 * 1024, 1);
  try {
    await storage.write(file, bytes);
    const read = await storage.read(file);
    if (!bytes.equals(read)) return bad(`${root} gives back other bytes than were written`, 'Run hdfs fsck on it.');
  } finally {
    await storage.remove(file);
  }
  return good(`${root}: ${formatBytes(bytes.length)} written, read and removed`);
}

function describeResources(resources: Readonly<Record<string, number>>): string {
  const { 'memory-mb': memory = 0, vcores = 0, ...other } = resources;
  const more = Object.entries(other).map(([name, amount]) => `${amount} ${name}`);
  return [formatMemory(memory), `${vcores} vcores`, ...more].join(', ');
}
