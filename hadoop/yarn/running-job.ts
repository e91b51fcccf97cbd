import type { Amounts } from '../../conf/quota-schema.ts';
import { queueName, type RunningJob, takenBy } from '../../conf/quotas.ts';
import { demandOfTags } from '../../conf/role-tags.ts';
import type { Application } from './resource-manager-answers.ts';

/** Maps YARN's resource names to those of job.yaml and site files; other types have the same name in both. */
const NAMES: Readonly<Record<string, string>> = { 'memory-mb': 'memory', vcores: 'vcores', 'yarn.io/gpu': 'gpus' };

/** Converts YARN's resource names to the names of job.yaml. */
export function amountsOf(resources: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(resources).map(([name, amount]) => [NAMES[name] ?? name, amount]));
}

/** Converts an application to a running job, as quotas count it. */
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
 * True if the application has a container in addition to the ApplicationMaster's: the job has then started. YARN hides the number of
 * containers from users who may not view the application, so this also checks the resources in use.
 */
export function holdsTasks({ runningContainers, used }: Pick<Application, 'runningContainers' | 'used'>): boolean {
  return runningContainers > 1 || Object.values(used).some((amount) => amount > 0);
}

/**
 * Returns the known number of tasks, at least 1 if the application uses resources: YARN hides the number of containers from users who may
 * not view the application.
 */
function tasksOf({ runningContainers, used }: Pick<Application, 'runningContainers' | 'used'>): number {
  return Math.max(holdsTasks({ runningContainers, used }) ? 1 : 0, runningContainers - 1);
}
