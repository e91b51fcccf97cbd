import type { Job } from '../../conf/job.ts';
import type { S3Connection } from '../../storage/s3/s3-connection.ts';

/**
 * Returns the object store for a job; null if the job names no s3:// URI. The client sends the access key only to jobs that name an object
 * store.
 * @param find finds the store and the access key of the user
 * @throws TonyError S3_CREDENTIALS_MISSING, HADOOP_CONF_INVALID
 */
export async function objectStoreOf(job: Job, find: () => Promise<S3Connection>): Promise<S3Connection | null> {
  return /\bs3[an]?:\/\//i.test(JSON.stringify(job)) ? await find() : null;
}
