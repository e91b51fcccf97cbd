import { APPLICATION_TYPE } from '../../conf/job.ts';
import type { Quotas } from '../../conf/quota-schema.ts';
import { LIVE_STATES } from '../../hadoop/yarn/resource-manager-answers.ts';
import { checkOptions, type OptionNames } from '../../platform/check-options.ts';
import { siteOfCluster } from '../../storage/cluster-site.ts';
import { CLUSTER_OPTIONS, type ClusterOptions } from '../cluster/cluster.ts';
import { withCluster } from '../cluster/with-cluster.ts';
import { type QuotaSum, type QuotaSums, quotaSums } from './quota-sums.ts';
import { countedJobs } from './running-jobs.ts';

export interface QuotaUsageOptions extends ClusterOptions {
  /** User, queue or role to which the result is limited. */
  readonly user?: string | undefined;
  readonly queue?: string | undefined;
  readonly role?: string | undefined;
}

const USAGE_OPTIONS: OptionNames<QuotaUsageOptions> = { ...CLUSTER_OPTIONS, user: true, queue: true, role: true };

export interface QuotaUsage extends QuotaSums {
  /** Path or URI of the site file, or null if there is none. */
  readonly from: string | null;
  readonly over: Quotas['over'];
}

/**
 * Returns how much of each total in the site file is used, and the jobs that are waiting because they would exceed a total. Like
 * ApplicationMasters, uses the site file on HDFS. If HDFS has no site file, uses the local site file.
 * @throws TonyError HADOOP_CONF_NOT_FOUND, HADOOP_CONF_INVALID, RM_UNREACHABLE, HDFS_UNREACHABLE, SITE_INVALID, KERBEROS_*
 */
export async function quotaUsage(options: QuotaUsageOptions = {}): Promise<QuotaUsage> {
  checkOptions('quotaUsage', options, USAGE_OPTIONS);
  return withCluster(options, async (cluster, resourceManager) => {
    const [ofCluster, applications] = await Promise.all([
      siteOfCluster(cluster.storage, cluster.configuration.defaultFs),
      resourceManager.applications({ types: [APPLICATION_TYPE], states: LIVE_STATES }),
    ]);
    const { from, quotas, final } = ofCluster.from === null ? await cluster.site() : ofCluster;
    const sums = quotaSums({ quotas, final }, await countedJobs(applications, quotas, cluster));
    return { from, over: quotas.over, ...sums, totals: sums.totals.filter((sum) => isMeant(sum, options)) };
  });
}

function isMeant(sum: QuotaSum, { user, queue, role }: QuotaUsageOptions): boolean {
  return (
    (user === undefined || sum.user === user) && (queue === undefined || sum.queue === queue) && (role === undefined || sum.role === role)
  );
}
