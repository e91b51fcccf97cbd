import { userInfo } from 'node:os';
import { TonyError } from '../conf/errors.ts';
import { HadoopConfiguration } from '../hadoop/configuration.ts';
import { createStorage } from '../storage/create-storage.ts';
import type { Storage } from '../storage/storage.ts';
import { readTask } from './task.ts';
import type { TaskContext } from './task-context.ts';

/** What this process may read and write: that of its job, or of whoever runs it alone. */
export async function openStorage(): Promise<Storage> {
  const task = readTask();
  return task === null ? await storageAlone() : storageOfJob(task);
}

export function storageOfJob(task: TaskContext): Storage {
  const hadoop = task.hadoop === null ? null : HadoopConfiguration.fromProperties(task.hadoop);
  return createStorage({ hadoop, user: task.user });
}

/** With the cluster that HADOOP_CONF_DIR names, if any. */
export async function storageAlone(): Promise<Storage> {
  const hadoop = await HadoopConfiguration.fromEnvironment().catch((error) => {
    if (error instanceof TonyError && error.code === 'NO_HADOOP_CONF') {
      return null;
    }
    throw error;
  });
  return createStorage({ hadoop, user: process.env.HADOOP_USER_NAME ?? userInfo().username });
}
