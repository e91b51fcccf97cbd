import { join } from 'node:path';
import { parseSite, SITE_FILE, type SiteConfig } from '../../conf/site.ts';
import { fileErrorOf, TonyError } from '../../platform/errors.ts';
import { readIfExists } from '../../platform/read-if-exists.ts';
import { siteOfCluster } from '../../storage/cluster-site.ts';
import type { Storage } from '../../storage/storage.ts';

export interface SitePlaces {
  /** Local folders, in order of precedence. */
  readonly folders: readonly string[];
  readonly storage: Storage;
  /** e.g. `hdfs://namenode:8020`. */
  readonly defaultFs: string;
}

/**
 * Loads a cluster's site file: `tony-site.yaml` in the first of the folders that has one, else `/apps/tony-ts/site.yaml` on HDFS, else the
 * defaults.
 *
 * @throws TonyError SITE_INVALID listing every mistake, SITE_UNREADABLE, or a connection error when HDFS is unreachable
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
  return await siteOfCluster(storage, defaultFs);
}

/**
 * The local folders to search for a site file. For a cluster that was named explicitly (`named`), omits Hadoop's configuration folder,
 * which describes another cluster.
 */
export function siteFolders(environment: NodeJS.ProcessEnv, named: boolean): string[] {
  const { TONY_CONF_DIR, HADOOP_CONF_DIR, HADOOP_HOME } = environment;
  const hadoop = HADOOP_CONF_DIR || (HADOOP_HOME ? join(HADOOP_HOME, 'etc', 'hadoop') : '');
  return [TONY_CONF_DIR ?? '', named ? '' : hadoop].filter((folder) => folder !== '');
}
