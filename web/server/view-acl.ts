import type { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';

/**
 * Returns a function that decides which users may view a job's pages on a cluster. These are the job's owner, the users in the job's view
 * ACL, and YARN's administrators. If the cluster does not check ACLs, all users may view the pages, as with YARN's own pages. Groups in the
 * ACLs have no effect here, because only YARN's daemons can resolve their members.
 */
export function jobViewers(
  configuration: HadoopConfiguration,
  job: { readonly user: string; readonly view: readonly string[] },
): (user: string | null) => boolean {
  if (!configuration.flag('yarn.acl.enable')) {
    return () => true;
  }
  // YARN's ACL format: users, a space, groups. By default, all users are administrators.
  const administrators = (configuration.get('yarn.admin.acl') ?? '*').split(' ')[0]?.split(',') ?? [];
  const allowed = new Set([job.user, ...job.view, ...administrators.filter((user) => user !== '')]);
  return (user) => allowed.has('*') || (user !== null && allowed.has(user));
}
