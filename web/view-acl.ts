import type { HadoopConfiguration } from '../hadoop/configuration.ts';

/**
 * Who may see a job's pages on a cluster: its owner, those whom its view ACL names, and YARN's administrators; everybody where the cluster does
 * not check ACLs, as for YARN's own pages. Groups are known to YARN's daemons only: their members are let in by name.
 */
export function jobViewers(
  configuration: HadoopConfiguration,
  job: { readonly user: string; readonly view: readonly string[] },
): (user: string | null) => boolean {
  if (!configuration.flag('yarn.acl.enable')) return () => true;
  // YARN's form of a list: users, a space, groups. Its default for administrators is everybody.
  const administrators = (configuration.get('yarn.admin.acl') ?? '*').split(' ')[0]?.split(',') ?? [];
  const allowed = new Set([job.user, ...job.view, ...administrators.filter((user) => user !== '')]);
  return (user) => allowed.has('*') || (user !== null && allowed.has(user));
}
