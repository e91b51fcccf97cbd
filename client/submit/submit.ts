import type { Job } from '../../conf/job.ts';
import { loadJob } from '../../conf/resolve/load-job.ts';
import { checkOptions } from '../../platform/check-options.ts';
import type { JobPlan } from '../plan/job-plan.ts';
import { JobHandle } from './job-handle.ts';
import { type DryRun, dryRunOf, type JobSource, openSubmission } from './open-submission.ts';
import { PLAN_OPTIONS, type PlanOptions, SUBMIT_OPTIONS, type SubmitOptions } from './submission.ts';
import { submitForProgram } from './submit-for-program.ts';

/**
 * Packs, uploads and submits a job.
 * @param job the path of a job.yaml, or the result of `loadJob`
 * @returns a handle to the job, with `events()`, `logs()`, `status()`, `result()` and `kill()`. The caller must close the handle.
 *   `openJob(handle.id)` returns another handle to the same job.
 * @throws TonyError with exit code 2: JOB_INVALID, SOURCE_NOT_FOUND, SOURCE_UNREADABLE, SOURCE_INVALID, STAGING_UNWRITABLE, RUNTIME_NOT_FOUND,
 *   BUNDLES_NOT_FOUND, HADOOP_CONF_NOT_FOUND, HADOOP_CONF_INVALID, KERBEROS_*, QUOTA_EXCEEDED, FINAL_VALUES_MISMATCH, RESOURCES_EXCEEDED, JOB_DENIED, RM_DENIED
 * @throws TonyError with exit code 3: RM_UNREACHABLE, HDFS_UNREACHABLE
 * @throws TonyError KILL_FAILED with exit code 1 if `signal` was aborted after the job was submitted and the job is still running. After
 *   any other error, none of the job's files remain on the cluster.
 */
export async function submit(job: Job | string, options: SubmitOptions = {}): Promise<JobHandle> {
  checkOptions('submit', options, SUBMIT_OPTIONS);
  return new JobHandle(await submitForProgram(sourceOf(job, options), options));
}

function sourceOf(job: Job | string, { onProgress }: PlanOptions): JobSource {
  return typeof job === 'string' ? (site) => loadJob(job, { site, ...(onProgress !== undefined && { onNote: onProgress }) }) : job;
}

/**
 * Returns the plan for a job: its resources, whether it can run now, later or never, and the files to upload. Does not upload or submit
 * anything.
 * @throws TonyError the errors of `submit`, except RESOURCES_EXCEEDED and JOB_DENIED, which the plan reports as the verdicts `never` and
 *   `refused`
 */
export async function planJob(job: Job | string, options: PlanOptions = {}): Promise<JobPlan> {
  checkOptions('planJob', options, PLAN_OPTIONS);
  return (await dryRun(job, options)).plan;
}

/** Returns the plan and the submission request for a job. `***` replaces every secret. */
export async function dryRun(job: Job | string, options: PlanOptions = {}): Promise<DryRun> {
  checkOptions('dryRun', options, PLAN_OPTIONS);
  return dryRunOf(await openSubmission(sourceOf(job, options), { ...options, dryRun: true }));
}
