import type { Job } from '../../conf/job.ts';
import { checkedJob } from '../../conf/resolve/resolved-job.ts';
import type { SiteConfig } from '../../conf/resolve/site.ts';
import { untilAborted } from '../../platform/async/until-aborted.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { type HadoopCluster, openCluster } from '../cluster/cluster.ts';
import { suggestLocal } from '../cluster/without-cluster.ts';
import type { JobConnection } from '../connections/job-connection.ts';
import { killJob } from '../connections/operations/kill-job.ts';
import type { JobPlan } from '../plan/job-plan.ts';
import type { SubmitRequest } from '../plan/submit-request.ts';
import { refuseLocalStaging } from '../staging/staging.ts';
import type { Submission, SubmissionOptions } from './submission.ts';

/*
 * Submits a job in two steps. `openSubmission` checks the job without uploading anything. `send` uploads the files and starts the job. A
 * dry run ends after the first step.
 */

/** Job, or function that loads the job. The function receives the cluster's site file, or null for local jobs. */
export type JobSource = Job | ((site: SiteConfig | null) => Promise<Job>);

export interface DryRun {
  readonly plan: JobPlan;
  /** Null for local jobs and for jobs that can never run or that YARN would reject. */
  readonly request: SubmitRequest | null;
}

/**
 * Loads and checks a job, finds the files that the job needs, and plans its containers. Does not upload or submit anything.
 * @param open opens the cluster; tests replace this function
 */
export async function openSubmission(
  source: JobSource,
  options: SubmissionOptions,
  open: typeof openCluster = openForSubmission,
): Promise<Submission> {
  const { signal } = options;
  const load = async (site: SiteConfig | null): Promise<Job> => (typeof source === 'function' ? source(site) : source);
  if (options.local === true) {
    const { openLocalSubmission } = await import('./local-submission.ts');
    return openLocalSubmission(checkedJob(await untilAborted(load(null), signal)), options);
  }
  let cluster: HadoopCluster | null = null;
  let isSiteRead = false;
  try {
    cluster = await untilAborted(open(options), signal);
    const site = typeof source === 'function' ? await untilAborted(cluster.site(), signal) : null;
    isSiteRead = true;
    const job = checkedJob(await untilAborted(load(site), signal));
    const { openYarnSubmission } = await import('./yarn-submission.ts');
    return await openYarnSubmission(job, cluster, options);
  } catch (error) {
    cluster?.close();
    signal?.throwIfAborted();
    // Report mistakes in the job even if the site file cannot be read, for example because the cluster is unreachable.
    if (!isSiteRead) {
      await load(null);
    }
    throw error;
  }
}

/** Opens a cluster whose nodes can read the staging folder. */
async function openForSubmission(options: SubmissionOptions): Promise<HadoopCluster> {
  const cluster = await openCluster(options).catch(suggestLocal);
  try {
    refuseLocalStaging(cluster.root);
    return cluster;
  } catch (error) {
    cluster.close();
    throw error;
  }
}

/** Uploads the job's files, submits the job, and closes `submission`. The caller closes the returned connection. */
export async function send(submission: Submission): Promise<JobConnection> {
  try {
    return await unlessAborted(await submission.submit(), submission.signal);
  } finally {
    await submission.close();
  }
}

/** Returns the job's plan and the request that would submit it, and closes `submission`. */
export async function dryRunOf(submission: Submission): Promise<DryRun> {
  try {
    return { plan: submission.plan, request: submission.request() };
  } finally {
    await submission.close();
  }
}

/** If `signal` was aborted during the submission request, kills the job and throws the abort reason. */
async function unlessAborted(job: JobConnection, signal: AbortSignal | undefined): Promise<JobConnection> {
  if (!signal?.aborted) {
    return job;
  }
  try {
    await killJob(job);
  } catch (error) {
    const message = `Interrupted, but ${job.id} had already been submitted and could not be killed: ${messageOf(error)}`;
    throw new TonyError('KILL_FAILED', message, { hint: `To kill the job, run tony-ts kill ${job.id}.`, cause: error });
  } finally {
    job.close();
  }
  throw signal.reason;
}
