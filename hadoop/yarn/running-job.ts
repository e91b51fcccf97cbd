import type { Amounts } from '../../conf/quota-schema.ts';
import { queueName, type RunningJob, takenBy } from '../../conf/quotas.ts';
import { demandOfTags } from '../../conf/role-tags.ts';
import type { Application } from './resource-manager-answers.ts';

/** Maps YARN's resource names to those in job.yaml and site files. All other resource types have the same name in both. */
const NAMES: Readonly<Record<string, string>> = { 'memory-mb': 'memory', vcores: 'vcores', 'yarn.io/gpu': 'gpus' };

/** Replaces YARN's resource names with those in job.yaml. */
export function amountsOf(resources: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(resources).map(([name, amount]) => [NAMES[name] ?? name, amount]));
}

/** Converts an application to a running job for quota checks. */
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
 * Returns true if the job has started: the application has a container other than the ApplicationMaster. YARN hides the number of
 * containers from users without permission to view the application, so this function also checks the resources in use.
 */
export function holdsTasks({ runningContainers, used }: Pick<Application, 'runningContainers' | 'used'>): boolean {
  return runningContainers > 1 || Object.values(used).some((amount) => amount > 0);
}

/**
 * Returns the number of tasks, as far as it is known. YARN hides the number of containers from users without permission to view the
 * application. In this case, the result is 1 if the application uses resources.
 */
function tasksOf({ runningContainers, used }: Pick<Application, 'runningContainers' | 'used'>): number {
  return Math.max(holdsTasks({ runningContainers, used }) ? 1 : 0, runningContainers - 1);
}
