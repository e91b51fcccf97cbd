import type { Job } from '../../conf/job.ts';
import { checkedJob } from '../../conf/resolved-job.ts';
import { checkOptions, type OptionNames } from '../../platform/check-options.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { CLUSTER_OPTIONS, type ClusterOptions, type HadoopCluster, openCluster } from '../cluster/cluster.ts';
import type { JobConnection } from '../connections/job-connection.ts';
import { killJob } from '../connections/kill-job.ts';
import type { JobPlan } from '../plan/job-plan.ts';
import type { StagingEvent } from '../staging/staging.ts';
import type { DryRun } from './submit-yarn.ts';

export interface PlanOptions extends ClusterOptions {
  /** Runs the job as processes of this machine; default false. */
  readonly local?: boolean;
  /** Folder of local jobs; default ~/.tony-ts/local. */
  readonly localRoot?: string | undefined;
  /** Receives progress of a runtime build. */
  readonly onProgress?: (line: string) => void;
  /** Cancels the operation and removes the job's files. A job that has already been submitted is killed. */
  readonly signal?: AbortSignal | undefined;
}

export interface SubmitOptions extends PlanOptions {
  /** Local jobs only: the job outlives this process; default false. Jobs on a cluster always do. */
  readonly detach?: boolean;
  /** Receives the resources to request and the parts to upload, before the upload; for jobs on a cluster only. */
  readonly onPlan?: (plan: JobPlan) => void;
  /** Receives the parts uploaded and the parts already present. */
  readonly onStaging?: (event: StagingEvent) => void;
}

export const PLAN_OPTIONS: OptionNames<PlanOptions> = {
  ...CLUSTER_OPTIONS,
  local: true,
  localRoot: true,
  onProgress: true,
  signal: true,
};
export const SUBMIT_OPTIONS: OptionNames<SubmitOptions> = { ...PLAN_OPTIONS, detach: true, onPlan: true, onStaging: true };

/**
 * Packs, stages and submits a job. Returns the connection that follows it; the caller closes the connection.
 *
 * @throws TonyError with exit code 2: JOB_INVALID (a Job that violates rules of job.yaml), SOURCE_MISSING, SOURCE_UNREADABLE,
 *   SOURCE_UNSAFE, STAGING_UNWRITABLE, RUNTIME_MISSING, BUNDLES_MISSING, NO_HADOOP_CONF, HADOOP_CONF_INVALID, CLUSTER_SECURE,
 *   QUOTA_EXCEEDED, FINAL_VALUES, JOB_TOO_LARGE (more than any node or container of the cluster has), JOB_REFUSED (the queue is stopped or
 *   may not use the nodes), RM_REFUSED. Nothing of the job is left on the cluster.
 * @throws TonyError with exit code 3: RM_UNREACHABLE, HDFS_UNREACHABLE. Nothing of the job is left on the cluster.
 * @throws TonyError with exit code 1: KILL_FAILED, if `signal` aborted too late and the job is running.
 */
export async function submit(job: Job, options: SubmitOptions = {}): Promise<JobConnection> {
  checkOptions('submit', options, SUBMIT_OPTIONS);
  return options.local === true ? submitHere(job, options) : submitOn(await openCluster(options), job, options);
}

async function submitHere(job: Job, options: SubmitOptions): Promise<JobConnection> {
  const { submitLocal } = await import('./submit-local.ts');
  const { LocalJob } = await import('../connections/local-job.ts');
  const place = await localPlace(options);
  const { onStaging = () => undefined, onProgress = () => undefined, signal, environment, detach = false } = options;
  const submission = { ...place, detach, onEvent: onStaging, onProgress, signal, ...(environment && { environment }) };
  const { applicationId } = await submitLocal(checkedJob(job), submission);
  return unlessAborted(new LocalJob(applicationId, place.root), signal);
}

/** Submits to an open cluster. The connection closes the cluster, and so does a failure. */
export async function submitOn(cluster: HadoopCluster, job: Job, options: SubmitOptions): Promise<JobConnection> {
  const { onPlan = () => undefined, onStaging = () => undefined, onProgress = () => undefined, signal } = options;
  try {
    const { submitToYarn } = await import('./submit-yarn.ts');
    const { YarnJob } = await import('../connections/yarn-job.ts');
    const { applicationId } = await submitToYarn(checkedJob(job), cluster, { onPlan, onEvent: onStaging, onProgress, signal });
    return await unlessAborted(new YarnJob(applicationId, cluster), signal);
  } catch (error) {
    cluster.close();
    throw error;
  }
}

/** A submission in progress cannot be cancelled: if `signal` has aborted meanwhile, kills the job. */
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
 * Returns the resources that a job would request, whether the cluster has room for it (now, later, never), and the parts to upload. Uploads
 * and submits nothing.
 *
 * @throws TonyError as `submit` does, except JOB_TOO_LARGE and JOB_REFUSED: those are the plan's verdicts `never` and `refused`
 */
export async function planJob(job: Job, options: PlanOptions = {}): Promise<JobPlan> {
  checkOptions('planJob', options, PLAN_OPTIONS);
  return (await dryRun(job, options)).plan;
}

/** Returns the plan and the request to the ResourceManager, with every secret as `***`. */
export async function dryRun(job: Job, options: PlanOptions = {}): Promise<DryRun> {
  checkOptions('dryRun', options, PLAN_OPTIONS);
  if (options.local !== true) return dryRunOn(await openCluster(options), job, options);
  const { rehearseHere } = await import('./submit-local.ts');
  return { plan: await rehearseHere(checkedJob(job), await localPlace(options)), request: null };
}

/** Plans on an open cluster and closes it at the end. */
export async function dryRunOn(cluster: HadoopCluster, job: Job, { onProgress = () => undefined, signal }: PlanOptions): Promise<DryRun> {
  try {
    const { dryRunOnYarn } = await import('./submit-yarn.ts');
    return await dryRunOnYarn(checkedJob(job), cluster, { onEvent: () => undefined, onProgress, signal });
  } finally {
    cluster.close();
  }
}

async function localPlace({ localRoot: root, environment }: PlanOptions): Promise<{ readonly root: string; readonly user: string }> {
  const { localRoot } = await import('../staging/local-folder.ts');
  const { hadoopUser } = await import('../../hadoop/configuration/configuration.ts');
  return { root: root ?? localRoot(environment), user: hadoopUser(environment) };
}
