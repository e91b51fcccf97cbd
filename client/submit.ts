import type { Job } from '../conf/job.ts';
import { type ClusterOptions, openCluster } from './cluster.ts';
import type { JobConnection } from './job-connection.ts';
import type { StagingEvent } from './staging.ts';

export interface SubmitOptions extends ClusterOptions {
  /** Run it as processes of this machine; default false. */
  readonly local?: boolean;
  /** Local jobs only: the job outlives this process; default false. What runs on a cluster always does. */
  readonly detach?: boolean;
  /** Folder of local jobs; default ~/.tony-ts/local. */
  readonly localRoot?: string | undefined;
  /** Told what is uploaded and what is there already. */
  readonly onStaging?: (event: StagingEvent) => void;
  /** A line of progress, when a runtime has to be built first. */
  readonly onProgress?: (line: string) => void;
  /** Ends the submit; nothing of the job is left behind then. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Packs, stages and submits a job, and answers the connection by which it is followed. The connection's user closes it.
 *
 * @throws TonyError, exit code 2: SOURCE_MISSING, SOURCE_UNREADABLE, SOURCE_UNSAFE, STAGING_UNWRITABLE, RUNTIME_MISSING, BUNDLES_MISSING, NO_HADOOP_CONF,
 * HADOOP_CONF_INVALID, CLUSTER_SECURE, RM_REFUSED (e.g. more memory for the ApplicationMaster than the cluster gives); exit code 3: RM_UNREACHABLE,
 * HDFS_UNREACHABLE. Nothing of the job is left on the cluster then.
 */
export async function submit(job: Job, options: SubmitOptions = {}): Promise<JobConnection> {
  const { onStaging = () => undefined, onProgress = () => undefined } = options;
  if (options.local === true) {
    const { submitLocal } = await import('./submit-local.ts');
    const { localRoot } = await import('./local-folder.ts');
    const { LocalJob } = await import('./local-job.ts');
    const { hadoopUser } = await import('../hadoop/configuration.ts');
    const root = options.localRoot ?? localRoot(options.environment);
    const { applicationId } = await submitLocal(job, {
      root,
      user: hadoopUser(options.environment),
      detach: options.detach ?? false,
      onEvent: onStaging,
      onProgress,
      signal: options.signal,
      ...(options.environment && { environment: options.environment }),
    });
    return new LocalJob(applicationId, root);
  }
  const cluster = await openCluster(options);
  try {
    const { submitToYarn } = await import('./submit-yarn.ts');
    const { YarnJob } = await import('./yarn-job.ts');
    const { applicationId } = await submitToYarn(job, cluster, { onEvent: onStaging, onProgress, signal: options.signal });
    return new YarnJob(applicationId, cluster);
  } catch (error) {
    cluster.close();
    throw error;
  }
}
