import { access, constants } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import {
  authorityFileOf,
  type KeepingSite,
  keytabOf,
  parseKeepingSite,
  parseSite,
  SITE_FILE,
  type SiteConfig,
  storageOfSite,
} from '../../conf/resolve/site.ts';
import { httpsIfTrusted, withAuthorities } from '../../hadoop/configuration/authorities.ts';
import { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { gatewayProperties } from '../../hadoop/configuration/file-systems/gateway.ts';
import { homesOf } from '../../hadoop/configuration/file-systems/hdfs-place.ts';
import { GATEWAY_CREDENTIALS } from '../../hadoop/configuration/login/gateway-login.ts';
import { clusterUser, loginOf } from '../../hadoop/configuration/login/login-of.ts';
import type { Login } from '../../hadoop/security/login.ts';
import { readPemFile } from '../../hadoop/tls/trust-store.ts';
import type { OptionNames } from '../../platform/check-options.ts';
import { fileErrorOf, TonyError } from '../../platform/errors.ts';
import { isFolder } from '../../platform/files/make-folders.ts';
import { readIfExists } from '../../platform/files/read-if-exists.ts';
import { resolvePath } from '../../platform/files/resolve-path.ts';
import { once } from '../../platform/once.ts';
import { siteOfCluster } from '../../storage/cluster-site.ts';
import { createStorage } from '../../storage/create-storage.ts';
import { readIfStored } from '../../storage/read-if-stored.ts';
import { s3Finder } from '../../storage/s3/find-s3-connection.ts';
import type { FindS3Connection } from '../../storage/s3/s3-connection.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import { placeUri } from '../files/place-uri.ts';

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
export async function loadSite<Site = SiteConfig>(
  { folders, storage, defaultFs }: SitePlaces,
  parse: (text: string, file: string) => Site | SiteConfig = parseSite,
): Promise<Site | SiteConfig> {
  const found = await findSiteFile(folders);
  return found === null ? siteOfCluster(storage, defaultFs, parse) : parse(found.text, found.file);
}

/**
 * Checks TONY_CONF_DIR. A misspelt folder would otherwise select another site file.
 * @throws TonyError SITE_UNREADABLE
 */
export async function checkSiteFolder({ TONY_CONF_DIR: folder }: NodeJS.ProcessEnv): Promise<void> {
  if (folder && !(await isFolder(folder))) {
    throw new TonyError('SITE_UNREADABLE', `TONY_CONF_DIR names ${folder}, which is not an existing folder.`, {
      hint: `Set TONY_CONF_DIR to the folder with ${SITE_FILE}, or unset it.`,
    });
  }
}

/**
 * Returns the first `tony-site.yaml` in `folders`, or null if no folder contains one.
 * @throws TonyError SITE_UNREADABLE
 */
async function findSiteFile(folders: readonly string[]): Promise<{ readonly file: string; readonly text: string } | null> {
  for (const folder of folders) {
    const file = join(folder, SITE_FILE);
    const text = await readIfExists(file).catch((error: unknown) => {
      throw new TonyError('SITE_UNREADABLE', `Cannot read the site file ${file}: ${fileErrorOf(error)}.`, {
        cause: error,
        ...((error as NodeJS.ErrnoException).code === 'EISDIR' && { hint: 'Replace the folder by a file.' }),
      });
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
function localSite(folders: readonly string[]): ReturnType<typeof findSiteFile> {
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
  const file = credentials && resolvePath(credentials, dirname(site.file));
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

/**
 * If the local site file names a keytab, adds the environment variables that select the keytab. A keytab or delegation tokens that are
 * already in the environment take precedence.
 * @param folders folders to search for the site file, in this order
 * @throws TonyError SITE_UNREADABLE, SITE_INVALID, KERBEROS_TICKET_NOT_FOUND
 */
export async function withSiteKeytab(environment: NodeJS.ProcessEnv, folders: readonly string[]): Promise<NodeJS.ProcessEnv> {
  if (environment.TONY_KEYTAB || environment.HADOOP_TOKEN_FILE_LOCATION) {
    return environment;
  }
  const found = await findSiteFile(folders);
  const named = found === null ? null : keytabOf(found.text, found.file);
  if (found === null || named === null) {
    return environment;
  }
  const keytab = resolvePath(named.keytab, dirname(found.file));
  await access(keytab, constants.R_OK).catch((error: unknown) => {
    throw new TonyError(
      'KERBEROS_TICKET_NOT_FOUND',
      `The keytab ${keytab}, named in ${found.file}, cannot be read: ${fileErrorOf(error)}.`,
      {
        hint: 'Correct kerberos.keytab in the site file. If only some users may read the keytab, name it in a separate site file in their TONY_CONF_DIR.',
        cause: error,
      },
    );
  });
  return { ...environment, TONY_PRINCIPAL: named.principal, TONY_KEYTAB: keytab };
}

/**
 * Returns the certificate authorities (PEM) from the file that `tls.ca` names in the local site file, or '' if `tls.ca` is not set.
 * @param folders folders to search for the site file, in this order.
 * @throws TonyError TRUST_STORE_UNREADABLE
 */
async function siteAuthorities(folders: readonly string[]): Promise<string> {
  const file = await authorityFile(folders);
  return file === null ? '' : readPemFile(file);
}

/**
 * Returns the certificate authorities (PEM) in the file that NODE_EXTRA_CA_CERTS names. Ignores an unreadable file, because Node.js already
 * warns about it.
 */
async function extraAuthorities({ NODE_EXTRA_CA_CERTS: file }: NodeJS.ProcessEnv): Promise<string> {
  return file ? readPemFile(file).catch(() => '') : '';
}

/** The commands that load the site file report an unreadable or invalid file, so this function ignores it. */
async function authorityFile(folders: readonly string[]): Promise<string | null> {
  const site = await localSite(folders);
  const named = site === null ? null : authorityFileOf(site.text);
  return site === null || named === null ? null : resolvePath(named, dirname(site.file));
}

export interface ClusterOptions {
  /**
   * Web address of a ResourceManager from which to download the Hadoop configuration. By default, the configuration in HADOOP_CONF_DIR is
   * used.
   */
  readonly resourceManager?: string | undefined;
  /** URI of the staging root. Default: `<fs.defaultFS>/user/<user>/.tony-ts`. */
  readonly staging?: string | undefined;
  readonly env?: NodeJS.ProcessEnv;
}

export const CLUSTER_OPTIONS: OptionNames<ClusterOptions> = { resourceManager: true, staging: true, env: true };

/**
 * Timeout (ms) for the first HDFS request. Kept short so that interactive commands report an unreachable NameNode quickly. Later requests
 * wait until a failover is complete.
 */
const FIRST_ANSWER_MS = 4_000;
/** Time (ms) after which a NameNode that accepts the first request but does not respond is given up, as a ResourceManager is. */
const FIRST_ANSWER_TIMEOUT_MS = 10_000;

export interface HadoopCluster {
  readonly configuration: HadoopConfiguration;
  readonly user: string;
  /** Environment variables, including those that select the user's Kerberos ticket. */
  readonly environment: NodeJS.ProcessEnv;
  readonly login: Login;
  readonly storage: Storage;
  /** @throws TonyError S3_CREDENTIALS_NOT_FOUND, HADOOP_CONF_INVALID */
  readonly s3: FindS3Connection;
  /** URI of the staging root. */
  readonly root: string;
  /** URI of the user's home folder. */
  readonly home: string;
  /** Loads the site configuration on the first call. */
  site(): Promise<SiteConfig>;
  /** Loads the parts of the site configuration that tell where histories are, also if other parts contain mistakes. */
  keepingSite(): Promise<KeepingSite>;
  close(): void;
}

/**
 * Reads the Hadoop configuration from HADOOP_CONF_DIR. If `resourceManager` is set, downloads the configuration from there instead.
 * @throws TonyError HADOOP_CONF_NOT_FOUND, HADOOP_CONF_INVALID, TRUST_STORE_UNREADABLE, TLS_FAILED, RM_UNREACHABLE, KERBEROS_*
 */
export async function readConfiguration({ resourceManager, env: environment = process.env }: ClusterOptions): Promise<HadoopConfiguration> {
  await checkSiteFolder(environment);
  const folders = siteFolders(environment, resourceManager !== undefined);
  const ofSite = (): Promise<string> => siteAuthorities(folders);
  const gateway = await storageProperties(folders);
  if (resourceManager === undefined) {
    const configuration = await HadoopConfiguration.fromEnvironment(environment, ofSite, gateway);
    return configuration.offersHttps ? withAuthorities(configuration, await extraAuthorities(environment)) : configuration;
  }
  const [{ configurationOfResourceManager }, { ServerTrust }] = await Promise.all([
    import('../../hadoop/configuration/remote/remote-configuration.ts'),
    import('../../hadoop/tls/server-trust.ts'),
  ]);
  const [given, extra] = await Promise.all([ofSite(), extraAuthorities(environment)]);
  const trusted = `${given}\n${extra}`;
  const withLogin = await withSiteKeytab(environment, folders);
  const configuration = await configurationOfResourceManager(resourceManager, withLogin, ServerTrust.of(trusted));
  return withAuthorities(configuration.with({ ...gateway, ...httpsIfTrusted(configuration, given) }), trusted);
}

/**
 * Creates the clients for a cluster. Contacts the cluster only if `resourceManager` is set, to download the cluster's configuration.
 * @throws TonyError HADOOP_CONF_NOT_FOUND, HADOOP_CONF_INVALID, RM_UNREACHABLE, KERBEROS_*, SITE_UNREADABLE, SITE_INVALID
 */
export async function openCluster(options: ClusterOptions): Promise<HadoopCluster> {
  const { resourceManager, staging, env: environment = process.env } = options;
  const configuration = await readConfiguration(options);
  const folders = siteFolders(environment, resourceManager !== undefined);
  const withLogin = configuration.secure ? await withSiteKeytab(environment, folders) : environment;
  const user = await clusterUser(configuration, withLogin);
  const login = loginOf(configuration, user, withLogin);
  const home = joinUri(homesOf(configuration), user);
  const s3 = s3Finder({ environment, hadoop: { configuration, readHdfs: (uri) => readIfStored(storage, uri) } });
  const storage = createStorage({
    hadoop: configuration,
    user,
    s3,
    maxFirstWaitMs: FIRST_ANSWER_MS,
    firstAnswerTimeoutMs: FIRST_ANSWER_TIMEOUT_MS,
  });
  const root = placeUri(staging ?? (environment.TONY_STAGING || null), home) ?? joinUri(home, '.tony-ts');
  const places = { folders, storage, defaultFs: configuration.defaultFs };
  const site = once(() => loadSite(places));
  return {
    configuration,
    user,
    environment: withLogin,
    login,
    storage,
    s3,
    root,
    home,
    site,
    keepingSite: once(() =>
      site().catch((error: unknown) => {
        if (error instanceof TonyError && error.code === 'SITE_INVALID') {
          return loadSite<KeepingSite>(places, parseKeepingSite);
        }
        throw error;
      }),
    ),
    close: () => storage.close(),
  };
}
