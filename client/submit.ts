import { messageOf, TonyError } from '../conf/errors.ts';
import type { Job } from '../conf/job.ts';
import { type Cluster, type ClusterOptions, openCluster } from './cluster.ts';
import type { JobConnection } from './job-connection.ts';
import { killJob } from './kill-job.ts';
import type { JobPlan } from './plan/job-plan.ts';
import type { StagingEvent } from './staging.ts';
import type { Rehearsal } from './submit-yarn.ts';

export interface PlanOptions extends ClusterOptions {
  /** As processes of this machine; default false. */
  readonly local?: boolean;
  /** Folder of local jobs; default ~/.tony-ts/local. */
  readonly localRoot?: string | undefined;
  /** A line of progress, when a runtime has to be built first. */
  readonly onProgress?: (line: string) => void;
  /** Ends it; nothing of the job is left behind then. A job that has been submitted by then is killed. */
  readonly signal?: AbortSignal | undefined;
}

export interface SubmitOptions extends PlanOptions {
  /** Local jobs only: the job outlives this process; default false. What runs on a cluster always does. */
  readonly detach?: boolean;
  /** Told what is asked for and what will be uploaded, before anything is; of jobs on a cluster only. */
  readonly onPlan?: (plan: JobPlan) => void;
  /** Told what is uploaded and what is there already. */
  readonly onStaging?: (event: StagingEvent) => void;
}

/**
 * Packs, stages and submits a job, and answers the connection by which it is followed. The connection's user closes it.
 *
 * @throws TonyError, exit code 2: SOURCE_MISSING, SOURCE_UNREADABLE, SOURCE_UNSAFE, STAGING_UNWRITABLE, RUNTIME_MISSING, BUNDLES_MISSING, NO_HADOOP_CONF,
 * HADOOP_CONF_INVALID, CLUSTER_SECURE, QUOTA_EXCEEDED, FINAL_VALUES, JOB_TOO_LARGE (more than any node or container of the cluster has), RM_REFUSED;
 * exit code 3: RM_UNREACHABLE, HDFS_UNREACHABLE. Nothing of the job is left on the cluster then.
 * Exit code 1: KILL_FAILED, when `signal` came too late and the job runs all the same.
 */
export async function submit(job: Job, options: SubmitOptions = {}): Promise<JobConnection> {
  return options.local === true ? submitHere(job, options) : submitOn(await openCluster(options), job, options);
}

async function submitHere(job: Job, options: SubmitOptions): Promise<JobConnection> {
  const { submitLocal } = await import('./submit-local.ts');
  const { LocalJob } = await import('./local-job.ts');
  const place = await localPlace(options);
  const { onStaging = () => undefined, onProgress = () => undefined, signal, environment, detach = false } = options;
  const submission = { ...place, detach, onEvent: onStaging, onProgress, signal, ...(environment && { environment }) };
  const { applicationId } = await submitLocal(job, submission);
  return unlessAborted(new LocalJob(applicationId, place.root), signal);
}

/** On a cluster that is open; the connection closes it, and so does a failure. */
export async function submitOn(cluster: Cluster, job: Job, options: SubmitOptions): Promise<JobConnection> {
  const { onPlan = () => undefined, onStaging = () => undefined, onProgress = () => undefined, signal } = options;
  try {
    const { submitToYarn } = await import('./submit-yarn.ts');
    const { YarnJob } = await import('./yarn-job.ts');
    const { applicationId } = await submitToYarn(job, cluster, { onPlan, onEvent: onStaging, onProgress, signal });
    return await unlessAborted(new YarnJob(applicationId, cluster), signal);
  } catch (error) {
    cluster.close();
    throw error;
  }
}

/** A request that is on its way cannot be taken back: who aborts then would leave a job that nobody wants. */
async function unlessAborted(job: JobConnection, signal: AbortSignal | undefined): Promise<JobConnection> {
  if (!signal?.aborted) return job;
  try {
    await killJob(job);
  } catch (error) {
    const message = `The submit was interrupted when ${job.applicationId} had been submitted, and it cannot be killed: ${messageOf(error)}`;
    throw new TonyError('KILL_FAILED', message, { hint: `Kill it yourself: tony-ts kill ${job.applicationId}.`, cause: error });
  } finally {
    job.close();
  }
  throw signal.reason;
}

/**
 * What a job would ask for, whether a cluster has room for it (now, later, never), and what would be uploaded. Nothing is uploaded or submitted.
 *
 * @throws TonyError as `submit` does, but for JOB_TOO_LARGE: that is the plan's verdict `never`.
 */
export async function planJob(job: Job, options: PlanOptions = {}): Promise<JobPlan> {
  return (await rehearse(job, options)).plan;
}

/** The plan, and what the ResourceManager would be asked, with every secret as `***`. */
export async function rehearse(job: Job, options: PlanOptions = {}): Promise<Rehearsal> {
  if (options.local !== true) return rehearseOn(await openCluster(options), job, options);
  const { rehearseHere } = await import('./submit-local.ts');
  return { plan: await rehearseHere(job, await localPlace(options)), request: null };
}

/** On a cluster that is open, and is closed at the end. */
export async function rehearseOn(cluster: Cluster, job: Job, { onProgress = () => undefined, signal }: PlanOptions): Promise<Rehearsal> {
  try {
    const { rehearseOnYarn } = await import('./submit-yarn.ts');
    return await rehearseOnYarn(job, cluster, { onEvent: () => undefined, onProgress, signal });
  } finally {
    cluster.close();
  }
}

async function localPlace({ localRoot: root, environment }: PlanOptions): Promise<{ readonly root: string; readonly user: string }> {
  const { localRoot } = await import('./local-folder.ts');
  const { hadoopUser } = await import('../hadoop/configuration.ts');
  return { root: root ?? localRoot(environment), user: hadoopUser(environment) };
}
