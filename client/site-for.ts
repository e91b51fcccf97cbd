import type { Site } from '../conf/site.ts';
import { type ClusterOptions, openCluster } from './cluster.ts';

/**
 * What the admin has settled where a job is to run, for `loadJob(path, { site })`; null for this machine (`local: true`), which has no admin.
 *
 * @throws TonyError SITE_INVALID, SITE_UNREADABLE, NO_HADOOP_CONF, HADOOP_CONF_INVALID, CLUSTER_SECURE, RM_UNREACHABLE, HDFS_UNREACHABLE
 */
export async function siteFor(options: ClusterOptions & { readonly local?: boolean } = {}): Promise<Site | null> {
  if (options.local === true) return null;
  const cluster = await openCluster(options);
  try {
    return await cluster.site();
  } finally {
    cluster.close();
  }
}
