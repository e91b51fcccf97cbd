import type { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';

/**
 * Who may view a job's pages on a cluster: its owner, the users in its view ACL, and YARN's administrators; every user if the cluster does
 * not check ACLs, as for YARN's own pages. Only YARN's daemons know the members of groups, so groups in the ACLs do not
 * apply to these pages.
 */
export function jobViewers(
  configuration: HadoopConfiguration,
  job: { readonly user: string; readonly view: readonly string[] },
): (user: string | null) => boolean {
  if (!configuration.flag('yarn.acl.enable')) {
    return () => true;
  }
  // YARN's ACL format: users, a space, groups. The administrators default to every user.
  const administrators = (configuration.get('yarn.admin.acl') ?? '*').split(' ')[0]?.split(',') ?? [];
  const allowed = new Set([job.user, ...job.view, ...administrators.filter((user) => user !== '')]);
  return (user) => allowed.has('*') || (user !== null && allowed.has(user));
}
