import type { Quotas } from '../conf/quota-schema.ts';
import { GroupMemory } from '../hadoop/group-memory.ts';
import type { Application } from '../hadoop/resource-manager-answers.ts';
import { holdsTasks, runningJob } from '../hadoop/running-job.ts';
import { inOrderOfSubmission } from '../hadoop/submission-order.ts';
import { groupsOfUser } from '../hadoop/user-groups.ts';
import type { Cluster } from './cluster.ts';
import type { CountedJob } from './quota-sums.ts';

/** Applications as sums count them, in the order of their submission. Groups are only asked for where quotas name any. */
export async function countedJobs(
  applications: readonly Application[],
  quotas: Quotas,
  { configuration, user: caller }: Pick<Cluster, 'configuration' | 'user'>,
): Promise<CountedJob[]> {
  const users = Object.keys(quotas.groups).length === 0 ? [] : applications.map(({ user }) => user);
  const groups = await new GroupMemory((user) => groupsOfUser(configuration, caller, user)).of(users);
  return inOrderOfSubmission(applications).map((application) => ({
    ...runningJob(application, (user) => groups.get(user) ?? []),
    holds: holdsTasks(application),
  }));
}
