import { masterReplacementMs } from '../../conf/values/lease.ts';
import { trustOf } from '../../hadoop/configuration/authorities.ts';
import { propertiesOfDaemon } from '../../hadoop/configuration/remote/remote-configuration.ts';
import type { HadoopCluster } from './cluster.ts';

/** Timeout (ms) for the request to each ResourceManager. If none of them responds, the submission continues. */
const MAX_WAIT_MS = 2_000;

/**
 * Returns the maximum time (ms) that YARN takes to replace an ApplicationMaster on a lost node, according to the ResourceManager's
 * configuration. Returns undefined if no ResourceManager reports its configuration.
 */
export async function askMasterReplacementMs({
  configuration,
  login,
}: Pick<HadoopCluster, 'configuration' | 'login'>): Promise<number | undefined> {
  for (const address of configuration.resourceManagers) {
    try {
      const properties = await propertiesOfDaemon(new URL(address), { login, trust: trustOf(configuration), timeoutMs: MAX_WAIT_MS });
      return masterReplacementMs(new Map(properties.map(({ name, value }) => [name, value])));
    } catch {
      // Try the next ResourceManager.
    }
  }
  return undefined;
}
