import { TonyError } from '../conf/errors.ts';
import { type ClusterOptions, openCluster } from './cluster.ts';
import type { JobConnection } from './job-connection.ts';
import { isLocalId } from './local-layout.ts';

export interface ConnectOptions extends ClusterOptions {
  /** Folder of local jobs; default ~/.tony-ts/local. */
  readonly localRoot?: string | undefined;
}

/**
 * A job that was submitted before, by its id: `application_..._0001` on the cluster that the configuration names, `local_..._0001` on this machine.
 * Connects to nothing yet.
 *
 * @throws TonyError USAGE when it is no id, NO_HADOOP_CONF, HADOOP_CONF_INVALID
 */
export async function connectJob(applicationId: string, options: ConnectOptions = {}): Promise<JobConnection> {
  if (checkId(applicationId) === 'local') {
    const { LocalJob } = await import('./local-job.ts');
    const { localRoot } = await import('./local-folder.ts');
    return new LocalJob(applicationId, options.localRoot ?? localRoot(options.environment));
  }
  const { YarnJob } = await import('./yarn-job.ts');
  return new YarnJob(applicationId, await openCluster(options));
}

/** Where a job of this id runs, or ran. @throws TonyError USAGE when it is no id */
export function checkId(applicationId: string): 'local' | 'cluster' {
  if (isLocalId(applicationId)) return 'local';
  if (/^application_\d+_\d{4,}$/.test(applicationId)) return 'cluster';
  throw new TonyError('USAGE', `"${applicationId}" is no application id.`, {
    hint: 'An id looks like application_1795225023264_0001, or local_1795225023264_0001 for a job of this machine.',
  });
}
