import { userInfo } from 'node:os';
import { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { TonyError } from '../../platform/errors.ts';
import { createStorage } from '../../storage/create-storage.ts';
import type { Storage } from '../../storage/storage.ts';
import { readTask } from './task.ts';
import type { TaskContext } from './task-context.ts';

/** Opens storage with the job's Hadoop configuration and user. A standalone program uses the configuration and user of its environment. */
export async function openStorage(): Promise<Storage> {
  const task = readTask();
  return task === null ? await storageAlone() : storageOfJob(task);
}

export function storageOfJob(task: TaskContext): Storage {
  const hadoop = task.hadoop === null ? null : HadoopConfiguration.fromProperties(task.hadoop);
  return createStorage({ hadoop, user: task.user });
}

/** Opens storage for a standalone program. Includes HDFS if the environment has a Hadoop configuration. */
export async function storageAlone(): Promise<Storage> {
  const hadoop = await HadoopConfiguration.fromEnvironment().catch((error) => {
    if (error instanceof TonyError && error.code === 'NO_HADOOP_CONF') {
      return null;
    }
    throw error;
  });
  return createStorage({ hadoop, user: process.env.HADOOP_USER_NAME ?? userInfo().username });
}
