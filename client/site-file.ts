import { join } from 'node:path';
import { fileErrorOf, TonyError } from '../conf/errors.ts';
import { readIfThere } from '../conf/read-if-there.ts';
import { parseSite, SITE_FILE, type Site } from '../conf/site.ts';
import { siteOfCluster } from '../storage/cluster-site.ts';
import type { Storage } from '../storage/storage.ts';

export interface SitePlaces {
  /** Folders of this machine, the first that has the file counts. */
  readonly folders: readonly string[];
  readonly storage: Storage;
  /** e.g. `hdfs://namenode:8020`. */
  readonly defaultFs: string;
}

/**
 * The admin's word for a cluster: `tony-site.yaml` in one of the folders, else `/apps/tony-ts/site.yaml` of the cluster, else the defaults.
 *
 * @throws TonyError SITE_INVALID with every mistake, SITE_UNREADABLE, or that HDFS cannot be reached
 */
export async function loadSite({ folders, storage, defaultFs }: SitePlaces): Promise<Site> {
  for (const folder of folders) {
    const file = join(folder, SITE_FILE);
    const text = await readIfThere(file).catch((error: unknown) => {
      throw new TonyError('SITE_UNREADABLE', `Cannot read the site file ${file}: ${fileErrorOf(error)}.`, { cause: error });
    });
    if (text !== null) return parseSite(text, file);
  }
  return await siteOfCluster(storage, defaultFs);
}

/** The folders of this machine in which a site file is looked for; that of Hadoop says nothing of a cluster that was named otherwise. */
export function siteFolders(environment: NodeJS.ProcessEnv, named: boolean): string[] {
  const { TONY_CONF_DIR, HADOOP_CONF_DIR, HADOOP_HOME } = environment;
  const hadoop = HADOOP_CONF_DIR || (HADOOP_HOME ? join(HADOOP_HOME, 'etc', 'hadoop') : '');
  return [TONY_CONF_DIR ?? '', named ? '' : hadoop].filter((folder) => folder !== '');
}
