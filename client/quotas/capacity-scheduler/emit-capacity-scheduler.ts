import { readFile } from 'node:fs/promises';
import { parseHadoopXml } from '../../../hadoop/configuration/hadoop-xml.ts';
import { propertiesOfDaemon } from '../../../hadoop/configuration/remote-configuration.ts';
import { groupsOfUser } from '../../../hadoop/configuration/user-groups.ts';
import { ResourceManager } from '../../../hadoop/yarn/resource-manager.ts';
import { checkOptions, type OptionNames, pickOptions } from '../../../platform/check-options.ts';
import { fileErrorOf, TonyError } from '../../../platform/errors.ts';
import { CLUSTER_OPTIONS, type ClusterOptions, type HadoopCluster, openCluster } from '../../cluster/cluster.ts';
import { schedulerConfiguration } from './scheduler-configuration.ts';
import { type QueueMode, type SchedulerProperty, usualQueueMode } from './scheduler-draft.ts';
import { schedulerXml } from './scheduler-xml.ts';

export interface EmitOptions extends ClusterOptions {
  /** The ResourceManager's current capacity-scheduler.xml; default: reconstructed from its report on the queues. */
  readonly base?: string | undefined;
  /** Notation of queue sizes; default: mixed where Hadoop supports it (3.4), else absolute. */
  readonly queueMode?: QueueMode | undefined;
  /** Number of ApplicationMasters for which a queue has room in addition to its total; default 8. */
  readonly masters?: number;
  /** Write queue sizes even though nodes are lost, unhealthy or being decommissioned; default false. */
  readonly allowMissingNodes?: boolean;
}

const EMIT_OPTIONS: OptionNames<EmitOptions> = {
  ...CLUSTER_OPTIONS,
  base: true,
  queueMode: true,
  masters: true,
  allowMissingNodes: true,
};

export interface EmittedScheduler {
  /** capacity-scheduler.xml */
  readonly xml: string;
  readonly properties: readonly SchedulerProperty[];
  /** Limits of the site file that YARN cannot enforce, and facts to know before using the file. */
  readonly notices: readonly string[];
}

const MASTERS = 8;
/** States of nodes that belong to the cluster but contribute no resources, or less and less. */
const MISSING = ['LOST', 'UNHEALTHY', 'DECOMMISSIONING', 'REBOOTED', 'SHUTDOWN'];

/**
 * Generates the Capacity Scheduler configuration that enforces the site file's quotas where YARN can, for applications of any kind.
 *
 * @throws TonyError NO_HADOOP_CONF, HADOOP_CONF_INVALID, RM_UNREACHABLE, HDFS_UNREACHABLE, SITE_INVALID, KERBEROS_*; USAGE when the
 * cluster uses another scheduler, lacks nodes, is too old for the mode, or the base describes other queues
 */
export async function emitCapacityScheduler(options: EmitOptions = {}): Promise<EmittedScheduler> {
  checkOptions('emitCapacityScheduler', options, EMIT_OPTIONS);
  const { base, queueMode, masters = MASTERS, allowMissingNodes = false } = options;
  const cluster = await openCluster(pickOptions<ClusterOptions>(options, CLUSTER_OPTIONS));
  const { configuration, user } = cluster;
  const resourceManager = ResourceManager.of(configuration, user);
  try {
    const [site, root, { hadoopVersion }, aclsEnabled, nodes, present] = await Promise.all([
      cluster.site(),
      resourceManager.capacityQueues(),
      resourceManager.clusterInfo(),
      aclsOf(cluster),
      resourceManager.nodes(MISSING),
      base === undefined ? resourceManager.schedulerConfiguration() : readBase(base),
    ]);
    if (root === null) {
      throw new TonyError('USAGE', 'The cluster does not schedule with the Capacity Scheduler.');
    }
    const { quotas } = site;
    // Only the `queues` lists apply to single users.
    const users = Object.keys(quotas.users).filter((name) => name !== '*');
    const ofGroups = Object.values(quotas.groups).some(({ queues }) => queues !== undefined);
    const groups = new Map(
      await Promise.all((ofGroups ? users : []).map(async (name) => [name, await groupsOfUser(configuration, user, name)] as const)),
    );
    const view = {
      quotas,
      root,
      hadoopVersion,
      queueMode: queueMode ?? usualQueueMode(hadoopVersion),
      missingNodes: nodes.map(({ id, state }) => `${id} (${state})`),
      allowMissingNodes,
      masters,
      groupsOf: (name: string) => groups.get(name) ?? [],
      aclsEnabled,
    };
    const emitted = schedulerConfiguration(view, present);
    const about = [
      `Capacity Scheduler of ${configuration.resourceManagers.join(', ')} with the quotas of ${site.from ?? 'no site file'}, as tony-ts quotas emit writes it.`,
      'Put it where the ResourceManager reads its capacity-scheduler.xml, and run: yarn rmadmin -refreshQueues',
    ];
    return { xml: schedulerXml(emitted, about), ...emitted };
  } finally {
    resourceManager.close();
    cluster.close();
  }
}

/** null if no ResourceManager reports the setting. */
async function aclsOf({ configuration, login }: HadoopCluster): Promise<boolean | null> {
  for (const address of configuration.resourceManagers) {
    const properties = await propertiesOfDaemon(new URL(address), { login }).catch(() => []);
    const found = properties.find(({ name }) => name === 'yarn.acl.enable');
    if (found !== undefined) {
      return found.value === 'true';
    }
  }
  return null;
}

async function readBase(file: string): Promise<ReadonlyMap<string, string>> {
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    throw new TonyError('USAGE', `Cannot read the base ${file}: ${fileErrorOf(error)}.`, { cause: error });
  });
  // An empty list means nobody, or no label. Hadoop's own files write it as one space, which XML parsers may drop.
  const written = (name: string, value: string): string => (value === '' && /\.(acl_\w+|accessible-node-labels)$/.test(name) ? ' ' : value);
  return new Map(parseHadoopXml(text, file).map(({ name, value }) => [name, written(name, value)]));
}
