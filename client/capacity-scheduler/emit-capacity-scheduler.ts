import { readFile } from 'node:fs/promises';
import { fileErrorOf, TonyError } from '../../conf/errors.ts';
import type { HadoopConfiguration } from '../../hadoop/configuration.ts';
import { parseHadoopXml } from '../../hadoop/hadoop-xml.ts';
import { propertiesOfDaemon } from '../../hadoop/remote-configuration.ts';
import { ResourceManager } from '../../hadoop/resource-manager.ts';
import { groupsOfUser } from '../../hadoop/user-groups.ts';
import { type ClusterOptions, openCluster } from '../cluster.ts';
import { schedulerConfiguration } from './scheduler-configuration.ts';
import type { QueueMode, SchedulerProperty } from './scheduler-draft.ts';
import { schedulerXml } from './scheduler-xml.ts';

export interface EmitOptions extends ClusterOptions {
  /** The ResourceManager's present capacity-scheduler.xml; default what it tells of itself. */
  readonly base?: string | undefined;
  /** How queues' sizes are written; default absolute. */
  readonly queueMode?: QueueMode | undefined;
  /** For so many ApplicationMasters there shall be room in a queue beside its total; default 8. */
  readonly masters?: number;
}

export interface EmittedScheduler {
  /** capacity-scheduler.xml */
  readonly xml: string;
  readonly properties: readonly SchedulerProperty[];
  /** What YARN cannot hold of the site file, and what has to be known before the file is used. */
  readonly notices: readonly string[];
}

const MASTERS = 8;

/**
 * The configuration of the cluster's Capacity Scheduler that enforces the site file's quotas where YARN can, whoever's ApplicationMaster it is.
 *
 * @throws TonyError NO_HADOOP_CONF, HADOOP_CONF_INVALID, RM_UNREACHABLE, HDFS_UNREACHABLE, SITE_INVALID, CLUSTER_SECURE; USAGE when the cluster
 *   has another scheduler, is older than what the mode takes, or the base is of other queues
 */
export async function emitCapacityScheduler({
  base,
  queueMode = 'absolute',
  masters = MASTERS,
  ...options
}: EmitOptions = {}): Promise<EmittedScheduler> {
  const cluster = await openCluster(options);
  const { configuration, user } = cluster;
  const resourceManager = ResourceManager.of(configuration, user);
  try {
    const [site, root, { hadoopVersion }, aclsEnabled, present] = await Promise.all([
      cluster.site(),
      resourceManager.capacityQueues(),
      resourceManager.clusterInfo(),
      aclsOf(configuration),
      base === undefined ? resourceManager.schedulerConfiguration() : readBase(base),
    ]);
    if (root === null) throw new TonyError('USAGE', 'The cluster does not schedule with the Capacity Scheduler.');
    const { quotas } = site;
    // Only lists of queues are about users one by one.
    const users = Object.keys(quotas.users).filter((name) => name !== '*');
    const ofGroups = Object.values(quotas.groups).some(({ queues }) => queues !== undefined);
    const groups = new Map(
      await Promise.all((ofGroups ? users : []).map(async (name) => [name, await groupsOfUser(configuration, user, name)] as const)),
    );
    const view = { quotas, root, hadoopVersion, queueMode, masters, groupsOf: (name: string) => groups.get(name) ?? [], aclsEnabled };
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

/** null when no ResourceManager says. */
async function aclsOf({ resourceManagers }: HadoopConfiguration): Promise<boolean | null> {
  for (const address of resourceManagers) {
    const properties = await propertiesOfDaemon(new URL(address)).catch(() => []);
    const found = properties.find(({ name }) => name === 'yarn.acl.enable');
    if (found !== undefined) return found.value === 'true';
  }
  return null;
}

async function readBase(file: string): Promise<ReadonlyMap<string, string>> {
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    throw new TonyError('USAGE', `Cannot read the base ${file}: ${fileErrorOf(error)}.`, { cause: error });
  });
  // An empty list means nobody, or no label; Hadoop's own files say so by a space, which XML's readers like to drop.
  const written = (name: string, value: string): string => (value === '' && /\.(acl_\w+|accessible-node-labels)$/.test(name) ? ' ' : value);
  return new Map(parseHadoopXml(text, file).map(({ name, value }) => [name, written(name, value)]));
}
