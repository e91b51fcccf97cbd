import type { Amounts } from '../../conf/quota-schema.ts';
import { queueName, type RunningJob, takenBy } from '../../conf/quotas.ts';
import { demandOfTags } from '../../conf/role-tags.ts';
import type { Application } from './resource-manager-answers.ts';

/** Maps YARN's resource names to those of job.yaml and site files; other types have the same name in both. */
const NAMES: Readonly<Record<string, string>> = { 'memory-mb': 'memory', vcores: 'vcores', 'yarn.io/gpu': 'gpus' };

/** Converts amounts of the ResourceManager to the names of job.yaml. */
export function amountsOf(resources: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(resources).map(([name, amount]) => [NAMES[name] ?? name, amount]));
}

/** Converts an application to the form that quota sums use. */
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
 * True when the application has containers other than its ApplicationMaster's, so the job has started. YARN does not report the number of
 * containers to users who may not view the application, so the resources in use are checked as well.
 */
export function holdsTasks({ runningContainers, used }: Pick<Application, 'runningContainers' | 'used'>): boolean {
  return runningContainers > 1 || Object.values(used).some((amount) => amount > 0);
}

/**
 * The minimum number of tasks, without the ApplicationMaster's container: to users who may not view an application, YARN reports its
 * resources but not the number of its containers.
 */
function tasksOf({ runningContainers, used }: Pick<Application, 'runningContainers' | 'used'>): number {
  return Math.max(holdsTasks({ runningContainers, used }) ? 1 : 0, runningContainers - 1);
}
