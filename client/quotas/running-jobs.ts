import { type CountedJob, runningJob } from '../../conf/quota-order.ts';
import type { Quotas } from '../../conf/quota-schema.ts';
import { groupsOfUser } from '../../hadoop/configuration/login/user-groups.ts';
import { GroupMemory } from '../../hadoop/rpc/group-memory.ts';
import type { Application } from '../../hadoop/yarn/resource-manager-answers.ts';
import { inOrderOfSubmission } from '../../hadoop/yarn/submission-order.ts';
import type { HadoopCluster } from '../cluster/cluster.ts';

/**
 * Converts applications to jobs, in the order in which they were submitted. Looks up the users' groups only if the site file has quotas for
 * groups.
 */
export async function countedJobs(
  applications: readonly Application[],
  quotas: Quotas,
  { configuration, user: caller }: Pick<HadoopCluster, 'configuration' | 'user'>,
): Promise<CountedJob[]> {
  const users = Object.keys(quotas.groups).length === 0 ? [] : applications.map(({ user }) => user);
  const groups = await new GroupMemory((user) => groupsOfUser(configuration, caller, user)).of(users);
  return inOrderOfSubmission(applications).map((application) => runningJob(application, (user) => groups.get(user) ?? []));
}
