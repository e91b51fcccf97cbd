import { checkOptions, type OptionNames } from '../../platform/check-options.ts';
import { TonyError } from '../../platform/errors.ts';
import { CLUSTER_OPTIONS, type ClusterOptions, openCluster } from '../cluster/cluster.ts';
import { isLocalId } from '../files/local-layout.ts';
import type { JobConnection } from './job-connection.ts';

export interface ConnectOptions extends ClusterOptions {
  /** Folder for local jobs. Default: ~/.tony-ts/local. */
  readonly localRoot?: string | undefined;
}

export const CONNECT_OPTIONS: OptionNames<ConnectOptions> = { ...CLUSTER_OPTIONS, localRoot: true };

/**
 * Returns a connection to a submitted job: `application_..._0001` on the configured cluster, or `local_..._0001` on this machine. Does not
 * contact the cluster yet.
 * @throws TonyError USAGE for an invalid ID, APPLICATION_UNKNOWN for a local job that does not exist, NO_HADOOP_CONF, HADOOP_CONF_INVALID
 */
export async function connectJob(applicationId: string, options: ConnectOptions = {}): Promise<JobConnection> {
  checkOptions('connectJob', options, CONNECT_OPTIONS);
  if (checkId(applicationId) === 'local') {
    const { LocalJob } = await import('./local-job.ts');
    const { localRoot } = await import('../staging/local-folder.ts');
    const job = new LocalJob(applicationId, options.localRoot ?? localRoot(options.environment));
    await job.mustExist();
    return job;
  }
  const { YarnJob } = await import('./yarn-job.ts');
  return new YarnJob(applicationId, await openCluster(options));
}

/**
 * Returns whether the job with this ID is a local job or runs on a cluster.
 * @throws TonyError USAGE for an invalid ID
 */
export function checkId(applicationId: string): 'local' | 'cluster' {
  if (isLocalId(applicationId)) {
    return 'local';
  }
  if (/^application_\d+_\d{4,}$/.test(applicationId)) {
    return 'cluster';
  }
  throw new TonyError('USAGE', `"${applicationId}" is not an application ID.`, {
    hint: 'Use the form application_1795225023264_0001, or local_1795225023264_0001 for a local job.',
  });
}
