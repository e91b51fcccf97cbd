import type { Job } from '../../conf/job.ts';
import { TonyError } from '../../platform/errors.ts';
import type { FindS3Connection, JobConnections } from '../../storage/s3/s3-connection.ts';
import { textsIn } from './job-texts.ts';

const S3_URI = /\bs3[an]?:\/\/([\w.-]*)/gi;

/**
 * Returns a job's object stores, or null if the job does not contain any s3:// URIs. Includes only the access keys for the buckets in these
 * URIs, and the default key.
 * @param find finds the store and the access key for a bucket
 * @throws TonyError S3_CREDENTIALS_NOT_FOUND, HADOOP_CONF_INVALID
 */
export async function objectStoreOf(job: Job, find: FindS3Connection): Promise<JobConnections | null> {
  const uris = textsIn(job).flatMap((text) => [...text.matchAll(S3_URI)]);
  if (uris.length === 0) {
    return null;
  }
  const names = new Set(uris.map(([, name = '']) => name).filter((name) => name !== ''));
  const buckets: [string, Awaited<ReturnType<FindS3Connection>>][] = [];
  for (const name of names) {
    buckets.push([name, await find(name)]);
  }
  const others = await find('').catch((error: unknown) => {
    if (buckets.length > 0 && error instanceof TonyError && error.code === 'S3_CREDENTIALS_NOT_FOUND') {
      return null;
    }
    throw error;
  });
  return { buckets: Object.fromEntries(buckets), others };
}
