import { userInfo } from 'node:os';
import { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { TonyError } from '../../platform/errors.ts';
import { createStorage } from '../../storage/create-storage.ts';
import type { Storage } from '../../storage/storage.ts';
import { readTask } from './task.ts';
import type { TaskContext } from './task-context.ts';

/**
 * Opens the storage of this process. It uses the job's Hadoop configuration and user or, for a standalone program, those of the
 * environment.
 */
export async function openStorage(): Promise<Storage> {
  const task = readTask();
  return task === null ? await storageAlone() : storageOfJob(task);
}

export function storageOfJob(task: TaskContext): Storage {
  const hadoop = task.hadoop === null ? null : HadoopConfiguration.fromProperties(task.hadoop);
  return createStorage({ hadoop, user: task.user });
}

/** Opens the storage of a standalone program, which includes the cluster that HADOOP_CONF_DIR describes, if it is set. */
export async function storageAlone(): Promise<Storage> {
  const hadoop = await HadoopConfiguration.fromEnvironment().catch((error) => {
    if (error instanceof TonyError && error.code === 'NO_HADOOP_CONF') {
      return null;
    }
    throw error;
  });
  return createStorage({ hadoop, user: process.env.HADOOP_USER_NAME ?? userInfo().username });
}
