import type { SiteConfig } from '../../conf/resolve/site.ts';
import { httpsIfTrusted, withAuthorities } from '../../hadoop/configuration/authorities.ts';
import { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { homesOf } from '../../hadoop/configuration/file-systems/hdfs-place.ts';
import { clusterUser, loginOf } from '../../hadoop/configuration/login/login-of.ts';
import type { Login } from '../../hadoop/security/login.ts';
import type { OptionNames } from '../../platform/check-options.ts';
import { createStorage } from '../../storage/create-storage.ts';
import { readIfStored } from '../../storage/read-if-stored.ts';
import { s3Finder } from '../../storage/s3/find-s3-connection.ts';
import type { FindS3Connection } from '../../storage/s3/s3-connection.ts';
import type { Storage } from '../../storage/storage.ts';
import { joinUri } from '../../storage/uri.ts';
import { placeUri } from '../files/place-uri.ts';
import { extraAuthorities, siteAuthorities } from './local-authorities.ts';
import { loadSite, siteFolders, storageProperties } from './site-file.ts';
import { withSiteKeytab } from './site-keytab.ts';

export interface ClusterOptions {
  /**
   * Web address of a ResourceManager from which to download the Hadoop configuration. By default, the configuration in HADOOP_CONF_DIR is
   * used.
   */
  readonly resourceManager?: string | undefined;
  /** URI of the staging root. Default: `<fs.defaultFS>/user/<user>/.tony-ts`. */
  readonly staging?: string | undefined;
  readonly environment?: NodeJS.ProcessEnv;
}

export const CLUSTER_OPTIONS: OptionNames<ClusterOptions> = { resourceManager: true, staging: true, environment: true };

/**
 * Timeout (ms) for the first HDFS request. Kept short so that interactive commands report an unreachable NameNode quickly. Later requests
 * wait until a failover is complete.
 */
const FIRST_ANSWER_MS = 4_000;

export interface HadoopCluster {
  readonly configuration: HadoopConfiguration;
  readonly user: string;
  /** Environment variables, including those that select the user's Kerberos ticket. */
  readonly environment: NodeJS.ProcessEnv;
  readonly login: Login;
  readonly storage: Storage;
  /** @throws TonyError S3_CREDENTIALS_MISSING, HADOOP_CONF_INVALID */
  readonly s3: FindS3Connection;
  /** URI of the staging root. */
  readonly root: string;
  /** URI of the user's home folder. */
  readonly home: string;
  /** Loads the site configuration on the first call. */
  site(): Promise<SiteConfig>;
  close(): void;
}

/**
 * Reads the Hadoop configuration from HADOOP_CONF_DIR. If `resourceManager` is set, downloads the configuration from there instead.
 * @throws TonyError NO_HADOOP_CONF, HADOOP_CONF_INVALID, TRUST_STORE_UNREADABLE, TLS_FAILED, RM_UNREACHABLE, KERBEROS_*
 */
export async function readConfiguration({ resourceManager, environment = process.env }: ClusterOptions): Promise<HadoopConfiguration> {
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
 * @throws TonyError NO_HADOOP_CONF, HADOOP_CONF_INVALID, RM_UNREACHABLE, KERBEROS_*, SITE_UNREADABLE, SITE_INVALID
 */
export async function openCluster(options: ClusterOptions): Promise<HadoopCluster> {
  const { resourceManager, staging, environment = process.env } = options;
  const configuration = await readConfiguration(options);
  const folders = siteFolders(environment, resourceManager !== undefined);
  const withLogin = configuration.secure ? await withSiteKeytab(environment, folders) : environment;
  const user = await clusterUser(configuration, withLogin);
  const login = loginOf(configuration, user, withLogin);
  const home = joinUri(homesOf(configuration), user);
  const s3 = s3Finder({ environment, hadoop: { configuration, readHdfs: (uri) => readIfStored(storage, uri) } });
  const storage = createStorage({ hadoop: configuration, user, s3, maxFirstWaitMs: FIRST_ANSWER_MS });
  const root = placeUri(staging ?? (environment.TONY_STAGING || null), home) ?? joinUri(home, '.tony-ts');
  let site: Promise<SiteConfig> | undefined;
  const readSite = (): Promise<SiteConfig> => loadSite({ folders, storage, defaultFs: configuration.defaultFs });
  return {
    configuration,
    user,
    environment: withLogin,
    login,
    storage,
    s3,
    root,
    home,
    site: () => (site ??= readSite()),
    close: () => storage.close(),
  };
}
