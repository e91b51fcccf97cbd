import { HadoopConfiguration, hadoopUser } from '../../hadoop/configuration/configuration.ts';
import { createStorage } from '../../storage/create-storage.ts';
import { readIfStored } from '../../storage/read-if-stored.ts';
import { s3Finder } from '../../storage/s3/find-s3-connection.ts';
import { decodeJobConnections } from '../../storage/s3/s3-connection.ts';
import type { Storage } from '../../storage/storage.ts';
import { readTask } from './task.ts';
import type { TaskContext } from './task-context.ts';

/**
 * Opens storage with the job's Hadoop configuration and user. For a standalone program, uses the configuration and user from the program's
 * environment.
 */
export async function openStorage(): Promise<Storage> {
  const task = readTask();
  return task === null ? await storageAlone() : storageOfJob(task);
}

export function storageOfJob(task: TaskContext): Storage {
  const hadoop = task.hadoop === null ? null : HadoopConfiguration.fromProperties(task.hadoop);
  const { s3, user } = task;
  return createStorage({ hadoop, user, ...(s3 !== null && { s3: decodeJobConnections(s3) }) });
}

/** Opens storage for a standalone program. Supports hdfs:// if the environment has a Hadoop configuration. */
export async function storageAlone(): Promise<Storage> {
  const hadoop = await HadoopConfiguration.ifConfigured();
  const inHadoop = hadoop && { configuration: hadoop, readHdfs: (uri: string) => readIfStored(storage, uri) };
  const storage = createStorage({ hadoop, user: hadoopUser(), s3: s3Finder({ environment: process.env, hadoop: inHadoop }) });
  return storage;
}
