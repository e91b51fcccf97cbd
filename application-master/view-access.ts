import type { FrozenJob } from '../conf/job.ts';
import { HadoopConfiguration } from '../hadoop/configuration.ts';
import type { Access } from '../web/access.ts';
import { jobViewers } from '../web/view-acl.ts';

/**
 * Who may see the job's pages: behind YARN its proxies' users as the job's view ACL and YARN's administrators say (everybody where
 * the cluster does not check ACLs, as for YARN's own pages), on one machine whoever has the token.
 */
export function viewAccess(frozen: FrozenJob, token: string): Access {
  if (frozen.cluster.kind === 'local') return { kind: 'token', token };
  const configuration = HadoopConfiguration.fromProperties(frozen.cluster.hadoop);
  const hosts = configuration.resourceManagers.map((address) => new URL(address).hostname);
  const proxy = configuration.get('yarn.web-proxy.address');
  if (proxy !== undefined && proxy !== '') hosts.push(proxy.replace(/:\d+$/, ''));
  return { kind: 'proxy', hosts, mayView: jobViewers(configuration, { user: frozen.user, view: frozen.job.acls.view.users }) };
}
