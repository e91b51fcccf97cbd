import { ResourceManager } from '../../hadoop/yarn/resource-manager.ts';
import { type ClusterOptions, type HadoopCluster, openCluster } from './cluster.ts';

/**
 * Runs an action with the clients for a cluster, and then closes the clients.
 * @throws TonyError from `openCluster` and from the action
 */
export async function withCluster<Result>(
  options: ClusterOptions,
  action: (cluster: HadoopCluster, resourceManager: ResourceManager) => Promise<Result>,
): Promise<Result> {
  const cluster = await openCluster(options);
  const resourceManager = ResourceManager.of(cluster.configuration, cluster.user);
  try {
    return await action(cluster, resourceManager);
  } finally {
    resourceManager.close();
    cluster.close();
  }
}
