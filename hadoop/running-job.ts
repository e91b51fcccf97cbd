import type { Amounts } from '../conf/quota-schema.ts';
import { queueName, type RunningJob, takenBy } from '../conf/quotas.ts';
import { rolesOfTags } from '../conf/role-tags.ts';
import type { Application } from './resource-manager-answers.ts';

/** By resource name of YARN what job.yaml and site files call it; other types have one name. */
const NAMES: Readonly<Record<string, string>> = { 'memory-mb': 'memory', vcores: 'vcores', 'yarn.io/gpu': 'gpus' };

/** Amounts as the ResourceManager tells them, by the names of job.yaml. */
export function amountsOf(resources: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(resources).map(([name, amount]) => [NAMES[name] ?? name, amount]));
}

/** A job of another user, or of the same one, as sums over running jobs count it. */
export function runningJob(application: Application, groupsOf: (user: string) => readonly string[]): RunningJob {
  const has: Amounts = { ...amountsOf(application.used), instances: tasksOf(application) };
  return {
    applicationId: application.id,
    user: application.user,
    groups: groupsOf(application.user),
    queue: queueName(application.queue),
    ...takenBy(rolesOfTags(application.tags), has),
  };
}

/** It has containers beside its ApplicationMaster's, so it has begun; who may not view it sees that by what these have. */
export function holdsTasks({ runningContainers, used }: Pick<Application, 'runningContainers' | 'used'>): boolean {
  return runningContainers > 1 || Object.values(used).some((amount) => amount > 0);
}

/** At least so many: YARN tells who may not view an application what it has, but not in how many containers. One of them is its ApplicationMaster's. */
function tasksOf({ runningContainers, used }: Pick<Application, 'runningContainers' | 'used'>): number {
  return Math.max(holdsTasks({ runningContainers, used }) ? 1 : 0, runningContainers - 1);
}
