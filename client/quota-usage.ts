import { APPLICATION_TYPE } from '../conf/job.ts';
import type { Quotas } from '../conf/quota-schema.ts';
import { ResourceManager } from '../hadoop/resource-manager.ts';
import { LIVE_STATES } from '../hadoop/resource-manager-answers.ts';
import { siteOfCluster } from '../storage/cluster-site.ts';
import { type ClusterOptions, openCluster } from './cluster.ts';
import { type QuotaSum, type QuotaSums, quotaSums } from './quota-sums.ts';
import { countedJobs } from './running-jobs.ts';

export interface QuotaUsageOptions extends ClusterOptions {
  /** Only totals that are one user's, one queue's, or of one role. */
  readonly user?: string | undefined;
  readonly queue?: string | undefined;
  readonly role?: string | undefined;
}

export interface QuotaUsage extends QuotaSums {
  /** The site file; null: there is none. */
  readonly from: string | null;
  /** What becomes of a job for which too little is left. */
  readonly over: Quotas['over'];
}

/**
 * How much jobs have of every total that the site file sets, and which jobs wait for what. It goes by the file on HDFS, as ApplicationMasters do; where
 * none is there, by that of this machine.
 *
 * @throws TonyError NO_HADOOP_CONF, HADOOP_CONF_INVALID, RM_UNREACHABLE, HDFS_UNREACHABLE, SITE_INVALID, CLUSTER_SECURE
 */
export async function quotaUsage(options: QuotaUsageOptions = {}): Promise<QuotaUsage> {
  const cluster = await openCluster(options);
  const { configuration, storage, user: caller } = cluster;
  const resourceManager = ResourceManager.of(configuration, caller);
  try {
    const [ofCluster, applications] = await Promise.all([
      siteOfCluster(storage, configuration.defaultFs),
      resourceManager.applications({ types: [APPLICATION_TYPE], states: LIVE_STATES }),
    ]);
    const { from, quotas } = ofCluster.from === null ? await cluster.site() : ofCluster;
    const sums = quotaSums(quotas, await countedJobs(applications, quotas, cluster));
    return { from, over: quotas.over, ...sums, totals: sums.totals.filter((sum) => isMeant(sum, options)) };
  } finally {
    resourceManager.close();
    cluster.close();
  }
}

function isMeant(sum: QuotaSum, { user, queue, role }: QuotaUsageOptions): boolean {
  return (
    (user === undefined || sum.user === user) && (queue === undefined || sum.queue === queue) && (role === undefined || sum.role === role)
  );
}
