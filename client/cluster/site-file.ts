import { join } from 'node:path';
import { parseSite, SITE_FILE, type SiteConfig } from '../../conf/site.ts';
import { fileErrorOf, TonyError } from '../../platform/errors.ts';
import { readIfExists } from '../../platform/read-if-exists.ts';
import { siteOfCluster } from '../../storage/cluster-site.ts';
import type { Storage } from '../../storage/storage.ts';

interface SitePlaces {
  /** Local folders, in order of precedence. */
  readonly folders: readonly string[];
  readonly storage: Storage;
  /** e.g. `hdfs://namenode:8020`. */
  readonly defaultFs: string;
}

/**
 * Loads a cluster's site file: the first `tony-site.yaml` in `folders`, otherwise `/apps/tony-ts/site.yaml` on HDFS. Without a site file,
 * returns the defaults.
 *
 * @throws TonyError SITE_INVALID with a list of all mistakes, SITE_UNREADABLE, HDFS_UNREACHABLE
 */
export async function loadSite({ folders, storage, defaultFs }: SitePlaces): Promise<SiteConfig> {
  for (const folder of folders) {
    const file = join(folder, SITE_FILE);
    const text = await readIfExists(file).catch((error: unknown) => {
      throw new TonyError('SITE_UNREADABLE', `Cannot read the site file ${file}: ${fileErrorOf(error)}.`, { cause: error });
    });
    if (text !== null) {
      return parseSite(text, file);
    }
  }
  return siteOfCluster(storage, defaultFs);
}

/**
 * Returns the local folders to search for a site file.
 * @param named whether the user named the cluster's ResourceManager. HADOOP_CONF_DIR may then describe another cluster, and is omitted.
 */
export function siteFolders(environment: NodeJS.ProcessEnv, named: boolean): string[] {
  const { TONY_CONF_DIR, HADOOP_CONF_DIR, HADOOP_HOME } = environment;
  const hadoop = HADOOP_CONF_DIR || (HADOOP_HOME ? join(HADOOP_HOME, 'etc', 'hadoop') : '');
  return [TONY_CONF_DIR ?? '', named ? '' : hadoop].filter((folder) => folder !== '');
}
