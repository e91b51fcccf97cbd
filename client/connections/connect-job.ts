import { checkOptions, type OptionNames } from '../../platform/check-options.ts';
import { CLUSTER_OPTIONS, type ClusterOptions, openCluster } from '../cluster/cluster.ts';
import { checkId } from './check-id.ts';
import type { JobConnection } from './job-connection.ts';

export interface ConnectOptions extends ClusterOptions {
  /** Folder for local jobs. Default: ~/.tony-ts/local. */
  readonly localRoot?: string | undefined;
}

export const CONNECT_OPTIONS: OptionNames<ConnectOptions> = { ...CLUSTER_OPTIONS, localRoot: true };

/**
 * Returns a connection to a submitted job: `application_..._0001` on the configured cluster, or `local_..._0001` on this machine. Does not
 * contact the cluster yet.
 * @throws TonyError USAGE for an invalid ID, JOB_NOT_FOUND for a local job that does not exist, HADOOP_CONF_NOT_FOUND, HADOOP_CONF_INVALID
 */
export async function connectJob(jobId: string, options: ConnectOptions = {}): Promise<JobConnection> {
  checkOptions('connectJob', options, CONNECT_OPTIONS);
  if (checkId(jobId) === 'local') {
    const { LocalJob } = await import('./local-job.ts');
    const { localRoot } = await import('../staging/local-folder.ts');
    const job = new LocalJob(jobId, options.localRoot ?? localRoot(options.env));
    await job.mustExist();
    return job;
  }
  const { YarnJob } = await import('./yarn-job.ts');
  return new YarnJob(jobId, await openCluster(options));
}
