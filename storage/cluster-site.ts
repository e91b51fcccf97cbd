import { DEFAULT_SITE, parseSite, type SiteConfig } from '../conf/site.ts';
import { HDFS_URI } from '../hadoop/configuration/hdfs-place.ts';
import { TonyError } from '../platform/errors.ts';
import type { Storage } from './storage.ts';
import { joinUri } from './uri.ts';

/**
 * Reads the site file on the cluster's default file system. Returns the default settings if the file does not exist.
 * @param defaultFs e.g. `hdfs://namenode:8020`
 * @throws TonyError SITE_INVALID with a list of all mistakes, or if HDFS is unreachable
 */
export async function siteOfCluster(storage: Storage, defaultFs: string): Promise<SiteConfig> {
  if (!HDFS_URI.test(defaultFs)) {
    return DEFAULT_SITE;
  }
  const uri = joinUri(defaultFs, 'apps', 'tony-ts', 'site.yaml');
  try {
    return parseSite((await storage.read(uri)).toString(), uri);
  } catch (error) {
    if (error instanceof TonyError && error.code === 'NOT_FOUND') {
      return DEFAULT_SITE;
    }
    throw error;
  }
}
