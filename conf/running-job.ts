import { amountsOf } from '../hadoop/yarn/resource-amounts.ts';
import type { Application } from '../hadoop/yarn/resource-manager-answers.ts';
import type { Amounts } from './quota-schema.ts';
import { queueName, type RunningJob, takenBy } from './quotas.ts';
import { demandOfTags } from './role-tags.ts';

/** Converts an application to the form that quota checks use. */
export function runningJob(application: Application, groupsOf: (user: string) => readonly string[]): RunningJob {
  const has: Amounts = { ...amountsOf(application.used), instances: tasksOf(application) };
  return {
    applicationId: application.id,
    user: application.user,
    groups: groupsOf(application.user),
    queue: queueName(application.queue),
    ...takenBy(demandOfTags(application.tags), has, amountsOf(application.usedByMaster)),
  };
}

/**
 * Returns true if the application has a container other than the ApplicationMaster's. YARN hides the number of containers from users
 * without permission to view the application. The function therefore also checks the resources in use, which all users can see.
 */
export function holdsTasks({ runningContainers, used }: Pick<Application, 'runningContainers' | 'used'>): boolean {
  return runningContainers > 1 || Object.values(used).some((amount) => amount > 0);
}

/** Returns the number of tasks. If YARN hides the number of containers from this user, returns 1 for an application that uses resources. */
function tasksOf({ runningContainers, used }: Pick<Application, 'runningContainers' | 'used'>): number {
  return Math.max(holdsTasks({ runningContainers, used }) ? 1 : 0, runningContainers - 1);
}
