import type { FrozenJob } from '../../conf/job.ts';
import { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import type { Access } from '../../web/server/access.ts';
import { jobViewers } from '../../web/server/view-acl.ts';

/**
 * Returns the users who may read the job's pages through YARN's proxy: the job's owner, the users in its view ACL, and YARN's
 * administrators. If the cluster does not check ACLs, all users may read them. A local job grants access to clients that have the token.
 */
export function viewAccess(frozen: FrozenJob, token: string): Access {
  if (frozen.cluster.kind === 'local') {
    return { kind: 'token', token };
  }
  const configuration = HadoopConfiguration.fromProperties(frozen.cluster.hadoop);
  const hosts = configuration.webProxies.map((address) => new URL(address).hostname);
  return { kind: 'proxy', hosts, mayView: jobViewers(configuration, { user: frozen.user, view: frozen.job.acls.view.users }) };
}
