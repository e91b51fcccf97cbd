import type { Job } from '../../conf/job.ts';
import { checkOptions } from '../../platform/check-options.ts';
import type { JobConnection } from '../connections/job-connection.ts';
import type { JobPlan } from '../plan/job-plan.ts';
import { type DryRun, dryRunOf, openSubmission, send } from './open-submission.ts';
import { PLAN_OPTIONS, type PlanOptions, SUBMIT_OPTIONS, type SubmitOptions } from './submission.ts';

/**
 * Packs, uploads and submits a job. Returns a connection to the job, which the caller closes.
 * @throws TonyError with exit code 2: JOB_INVALID, SOURCE_MISSING, SOURCE_UNREADABLE, SOURCE_UNSAFE, STAGING_UNWRITABLE, RUNTIME_MISSING,
 *   BUNDLES_MISSING, NO_HADOOP_CONF, HADOOP_CONF_INVALID, KERBEROS_*, QUOTA_EXCEEDED, FINAL_VALUES, JOB_TOO_LARGE, JOB_REFUSED, RM_REFUSED
 * @throws TonyError with exit code 3: RM_UNREACHABLE, HDFS_UNREACHABLE
 * @throws TonyError KILL_FAILED with exit code 1 if `signal` was aborted after the job was submitted and the job is still running. After
 *   any other error, none of the job's files remain on the cluster.
 */
export async function submit(job: Job, options: SubmitOptions = {}): Promise<JobConnection> {
  checkOptions('submit', options, SUBMIT_OPTIONS);
  return send(await openSubmission(job, options));
}

/**
 * Returns the plan for a job: its resources, whether it can run now, later or never, and the files to upload. Does not upload or submit
 * anything.
 * @throws TonyError the errors of `submit`, except JOB_TOO_LARGE and JOB_REFUSED, which the plan reports as the verdicts `never` and
 *   `refused`
 */
export async function planJob(job: Job, options: PlanOptions = {}): Promise<JobPlan> {
  checkOptions('planJob', options, PLAN_OPTIONS);
  return (await dryRun(job, options)).plan;
}

/** Returns the plan and the submission request for a job. `***` replaces every secret. */
export async function dryRun(job: Job, options: PlanOptions = {}): Promise<DryRun> {
  checkOptions('dryRun', options, PLAN_OPTIONS);
  return dryRunOf(await openSubmission(job, { ...options, dryRun: true }));
}
