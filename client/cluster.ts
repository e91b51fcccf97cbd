import { TonyError } from '../conf/errors.ts';
import type { Site } from '../conf/site.ts';
import { HadoopConfiguration, hadoopUser } from '../hadoop/configuration.ts';
import { createStorage } from '../storage/create-storage.ts';
import type { Storage } from '../storage/storage.ts';
import { joinUri } from '../storage/uri.ts';
import { placeUri } from './place-uri.ts';
import { loadSite, siteFolders } from './site-file.ts';

export interface ClusterOptions {
  /** Address of a ResourceManager's web server, whose own configuration is used; default HADOOP_CONF_DIR. */
  readonly resourceManager?: string | undefined;
  /** URI of the staging root; default `<fs.defaultFS>/user/<user>/.tony-ts`. */
  readonly staging?: string | undefined;
  readonly environment?: NodeJS.ProcessEnv;
}

export interface Cluster {
  readonly configuration: HadoopConfiguration;
  readonly user: string;
  readonly storage: Storage;
  /** URI of the staging root. */
  readonly root: string;
  /** URI of the user's home folder. */
  readonly home: string;
  /** What the admin has settled; read when it is first asked for. */
  site(): Promise<Site>;
  close(): void;
}

/**
 * The cluster that HADOOP_CONF_DIR, or a ResourceManager, names. Connects to nothing but that ResourceManager.
 *
 * @throws TonyError NO_HADOOP_CONF, HADOOP_CONF_INVALID, RM_UNREACHABLE, CLUSTER_SECURE
 */
export async function openCluster({ resourceManager, staging, environment = process.env }: ClusterOptions): Promise<Cluster> {
  const configuration =
    resourceManager === undefined
      ? await HadoopConfiguration.fromEnvironment(environment)
      : await (await import('../hadoop/remote-configuration.ts')).configurationOfResourceManager(resourceManager);
  if (configuration.secure) {
    throw new TonyError(
      'CLUSTER_SECURE',
      `The cluster ${configuration.resourceManagers[0]} asks for Kerberos, which this version cannot speak.`,
    );
  }
  const user = hadoopUser(environment);
  const home = joinUri(configuration.defaultFs, 'user', user);
  const storage = createStorage({ hadoop: configuration, user });
  const root = placeUri(staging ?? environment.TONY_STAGING ?? null, home) ?? joinUri(home, '.tony-ts');
  let site: Promise<Site> | undefined;
  const readSite = (): Promise<Site> =>
    loadSite({ folders: siteFolders(environment, resourceManager !== undefined), storage, defaultFs: configuration.defaultFs });
  return { configuration, user, storage, root, home, site: () => (site ??= readSite()), close: () => storage.close() };
}
