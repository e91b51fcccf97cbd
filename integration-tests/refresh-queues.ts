import { randomBytes } from 'node:crypto';
import { IpcConnection } from '../hadoop/rpc/ipc.ts';
import type { Cluster } from './cluster/cluster.mjs';

/**
 * Makes the ResourceManager load its capacity-scheduler.xml, as `yarn rmadmin -refreshQueues` does. Rejects if the ResourceManager rejects
 * the file.
 */
export async function refreshQueues(cluster: Cluster): Promise<void> {
  const connection = new IpcConnection({
    endpoint: { host: 'localhost', port: cluster.ports.resourcemanager.admin },
    protocol: { name: 'org.apache.hadoop.yarn.server.api.ResourceManagerAdministrationProtocolPB', version: 1 },
    caller: { user: cluster.administrator },
    clientId: randomBytes(16),
    connectTimeoutMs: 10_000,
  });
  try {
    // Protobuf encodes all empty messages identically, so this request also serves as the request of `refreshQueues`.
    await connection.call('refreshQueues', 'GetQueueUserAclsInfoRequestProto', {}, 30_000);
  } finally {
    connection.close();
  }
}
