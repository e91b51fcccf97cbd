import { TonyError } from '../conf/errors.ts';
import { HadoopConfiguration, hadoopUser } from '../hadoop/configuration.ts';
import { createStorage } from '../storage/create-storage.ts';
import type { Storage } from '../storage/storage.ts';
import { joinUri } from '../storage/uri.ts';

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
  const { placeUri } = await import('./freeze-job.ts');
  const root = placeUri(staging ?? environment.TONY_STAGING ?? null, home) ?? joinUri(home, '.tony-ts');
  return { configuration, user, storage, root, home, close: () => storage.close() };
}
