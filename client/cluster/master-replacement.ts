import { masterReplacementMs } from '../../conf/values/lease.ts';
import { trustOf } from '../../hadoop/configuration/authorities.ts';
import { propertiesOfDaemon } from '../../hadoop/configuration/remote-configuration.ts';
import type { HadoopCluster } from './cluster.ts';

/** Timeout in ms for each ResourceManager. A submission does not depend on the response. */
const PATIENCE_MS = 2_000;

/**
 * Returns the maximum time in ms for YARN to replace an ApplicationMaster on a lost node. Derives it from the ResourceManager's
 * configuration; returns undefined if no ResourceManager reports its configuration.
 */
export async function askMasterReplacementMs({
  configuration,
  login,
}: Pick<HadoopCluster, 'configuration' | 'login'>): Promise<number | undefined> {
  for (const address of configuration.resourceManagers) {
    try {
      const properties = await propertiesOfDaemon(new URL(address), { login, trust: trustOf(configuration), timeoutMs: PATIENCE_MS });
      return masterReplacementMs(new Map(properties.map(({ name, value }) => [name, value])));
    } catch {
      // Another ResourceManager may answer.
    }
  }
  return undefined;
}
