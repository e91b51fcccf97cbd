import type { SiteConfig } from '../../conf/resolve/site.ts';
import { type ClusterOptions, openCluster } from './cluster.ts';

/**
 * Returns a cluster's site configuration, for `loadJob(path, { site })`. Returns null if `local` is true, because site files do not affect
 * local jobs.
 * @throws TonyError SITE_INVALID, SITE_UNREADABLE, HADOOP_CONF_NOT_FOUND, HADOOP_CONF_INVALID, KERBEROS_*, RM_UNREACHABLE, HDFS_UNREACHABLE
 */
export async function siteFor(options: ClusterOptions & { readonly local?: boolean } = {}): Promise<SiteConfig | null> {
  if (options.local === true) {
    return null;
  }
  const cluster = await openCluster(options);
  try {
    return await cluster.site();
  } finally {
    cluster.close();
  }
}
