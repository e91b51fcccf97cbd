import { DEFAULT_SITE, parseSite, type SiteConfig } from '../conf/resolve/site.ts';
import { HDFS_URI } from '../hadoop/configuration/file-systems/hdfs-place.ts';
import { readIfStored } from './read-if-stored.ts';
import type { Storage } from './storage.ts';
import { joinUri } from './uri.ts';

/**
 * Reads the site file from the cluster's default file system. Returns the default settings if there is no site file.
 * @param defaultFs e.g. `hdfs://namenode:8020`
 * @throws TonyError SITE_INVALID with a list of all mistakes, or a storage error if the file cannot be read
 */
export async function siteOfCluster(storage: Storage, defaultFs: string): Promise<SiteConfig> {
  if (!HDFS_URI.test(defaultFs)) {
    return DEFAULT_SITE;
  }
  const uri = clusterSiteUri(defaultFs);
  const text = await readIfStored(storage, uri);
  return text === null ? DEFAULT_SITE : parseSite(text.toString(), uri);
}

/** Returns the URI of the site file on the cluster's default file system. */
export function clusterSiteUri(defaultFs: string): string {
  return joinUri(defaultFs, 'apps', 'tony-ts', 'site.yaml');
}
