import { homedir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { parseSite, SITE_FILE, type SiteConfig, storageOfSite } from '../../conf/resolve/site.ts';
import { gatewayProperties } from '../../hadoop/configuration/file-systems/gateway.ts';
import { GATEWAY_CREDENTIALS } from '../../hadoop/configuration/login/gateway-login.ts';
import { fileErrorOf, TonyError } from '../../platform/errors.ts';
import { readIfExists } from '../../platform/files/read-if-exists.ts';
import { siteOfCluster } from '../../storage/cluster-site.ts';
import type { Storage } from '../../storage/storage.ts';

interface SitePlaces {
  /** Local folders in the order in which they are searched. */
  readonly folders: readonly string[];
  readonly storage: Storage;
  /** URI of the default file system, such as `hdfs://namenode:8020`. */
  readonly defaultFs: string;
}

/**
 * Loads a cluster's site file: the first `tony-site.yaml` in `folders`, or else `/apps/tony-ts/site.yaml` on HDFS. Returns the default
 * settings if neither exists.
 * @throws TonyError SITE_INVALID, which lists all mistakes, SITE_UNREADABLE, HDFS_UNREACHABLE
 */
export async function loadSite({ folders, storage, defaultFs }: SitePlaces): Promise<SiteConfig> {
  const found = await findSiteFile(folders);
  return found === null ? siteOfCluster(storage, defaultFs) : parseSite(found.text, found.file);
}

/**
 * Returns the first `tony-site.yaml` in `folders`, or null if no folder contains one.
 * @throws TonyError SITE_UNREADABLE
 */
export async function findSiteFile(folders: readonly string[]): Promise<{ readonly file: string; readonly text: string } | null> {
  for (const folder of folders) {
    const file = join(folder, SITE_FILE);
    const text = await readIfExists(file).catch((error: unknown) => {
      throw new TonyError('SITE_UNREADABLE', `Cannot read the site file ${file}: ${fileErrorOf(error)}.`, { cause: error });
    });
    if (text !== null) {
      return { file, text };
    }
  }
  return null;
}

/**
 * Returns the first site file in the folders, or null if none can be read. Does not report errors, because the commands that need the site
 * file do so.
 */
export function localSite(folders: readonly string[]): ReturnType<typeof findSiteFile> {
  return findSiteFile(folders).catch(() => null);
}

/**
 * Returns the Hadoop properties that correspond to the `storage` key in the first site file in the folders. Ignores mistakes in the file,
 * because the commands that need the file report them.
 */
export async function storageProperties(folders: readonly string[]): Promise<Readonly<Record<string, string>>> {
  const site = await localSite(folders);
  const storage = site === null ? null : storageOfSite(site.text);
  if (site === null || storage === null) {
    return {};
  }
  const { gateway, credentials } = storage;
  const file = credentials?.startsWith('~/')
    ? join(homedir(), credentials.slice(2))
    : credentials && resolve(dirname(site.file), credentials);
  return { ...gatewayProperties(gateway), ...(file ? { [GATEWAY_CREDENTIALS]: file } : {}) };
}

/**
 * Returns the local folders in which to search for a site file.
 * @param named whether the user specified a ResourceManager. If so, the result omits HADOOP_CONF_DIR, which may belong to another cluster.
 */
export function siteFolders(environment: NodeJS.ProcessEnv, named: boolean): string[] {
  const { TONY_CONF_DIR, HADOOP_CONF_DIR, HADOOP_HOME } = environment;
  const hadoop = HADOOP_CONF_DIR || (HADOOP_HOME ? join(HADOOP_HOME, 'etc', 'hadoop') : '');
  return [TONY_CONF_DIR ?? '', named ? '' : hadoop].filter((folder) => folder !== '');
}
