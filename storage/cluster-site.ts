import { DEFAULT_SITE, parseSite, type SiteConfig } from '../conf/resolve/site.ts';
import { HDFS_URI } from '../hadoop/configuration/file-systems/hdfs-place.ts';
import { TonyError } from '../platform/errors.ts';
import { readIfStored } from './read-if-stored.ts';
import type { Storage } from './storage.ts';
import { joinUri } from './uri.ts';

/**
 * Reads the site file from the cluster's default file system. Returns the default settings if there is no site file.
 * @param defaultFs e.g. `hdfs://namenode:8020`
 * @param parse parses the text of the site file. The default is {@link parseSite}.
 * @throws TonyError SITE_INVALID with a list of all mistakes, or a storage error if the file cannot be read
 */
export async function siteOfCluster<Site = SiteConfig>(
  storage: Storage,
  defaultFs: string,
  parse: (text: string, file: string) => Site | SiteConfig = parseSite,
): Promise<Site | SiteConfig> {
  if (!HDFS_URI.test(defaultFs)) {
    return DEFAULT_SITE;
  }
  const uri = clusterSiteUri(defaultFs);
  const text = await readIfStored(storage, uri).catch((error: unknown) => {
    throw isDenied(error) ? hiddenSite(uri, error) : error;
  });
  return text === null ? DEFAULT_SITE : parse(text.toString(), uri);
}

function isDenied(error: unknown): boolean {
  return error instanceof TonyError && error.code === 'ACCESS_DENIED';
}

/** The site file belongs to the admin, so only the admin can make it readable. */
function hiddenSite(uri: string, cause: unknown): TonyError {
  return new TonyError('SITE_UNREADABLE', `You may not read the site file ${uri}, which sets the limits for all jobs.`, {
    cause,
    hint: `Ask the admin of tony-ts to make it readable for all users: hdfs dfs -chmod 644 ${uri}`,
  });
}

/** Returns the URI of the site file on the cluster's default file system. */
export function clusterSiteUri(defaultFs: string): string {
  return joinUri(defaultFs, 'apps', 'tony-ts', 'site.yaml');
}
