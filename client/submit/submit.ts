import type { Job } from '../../conf/job.ts';
import { checkOptions } from '../../platform/check-options.ts';
import type { JobConnection } from '../connections/job-connection.ts';
import type { JobPlan } from '../plan/job-plan.ts';
import { type DryRun, dryRunPrepared, prepare, submitPrepared } from './prepare.ts';
import { PLAN_OPTIONS, type PlanOptions, SUBMIT_OPTIONS, type SubmitOptions } from './submit-options.ts';

/**
 * Packs, stages and submits a job. Returns a connection to the job, which the caller closes.
 *
 * @throws TonyError with exit code 2: JOB_INVALID (a Job that violates rules of job.yaml), SOURCE_MISSING, SOURCE_UNREADABLE,
 *   SOURCE_UNSAFE, STAGING_UNWRITABLE, RUNTIME_MISSING, BUNDLES_MISSING, NO_HADOOP_CONF, HADOOP_CONF_INVALID, KERBEROS_*,
 *   QUOTA_EXCEEDED, FINAL_VALUES, JOB_TOO_LARGE (the job requests more than any node or container of the cluster has), JOB_REFUSED (the
 *   queue is stopped or may not use the nodes), RM_REFUSED
 * @throws TonyError with exit code 3: RM_UNREACHABLE, HDFS_UNREACHABLE
 * @throws TonyError with exit code 1: KILL_FAILED, if `signal` was aborted after the submission, and the job is still running. After all
 *   other errors, the job's files have been removed from the cluster.
 */
export async function submit(job: Job, options: SubmitOptions = {}): Promise<JobConnection> {
  checkOptions('submit', options, SUBMIT_OPTIONS);
  return submitPrepared(await prepare(job, options));
}

/**
 * Returns the resources that a job would request, whether it can run now, later or never, and the parts to upload. Uploads and submits
 * nothing.
 *
 * @throws TonyError the errors of `submit`, except JOB_TOO_LARGE and JOB_REFUSED, which are the plan's verdicts `never` and `refused`
 */
export async function planJob(job: Job, options: PlanOptions = {}): Promise<JobPlan> {
  checkOptions('planJob', options, PLAN_OPTIONS);
  return (await dryRun(job, options)).plan;
}

/** Returns the plan and the request to the ResourceManager, with every secret replaced by `***`. */
export async function dryRun(job: Job, options: PlanOptions = {}): Promise<DryRun> {
  checkOptions('dryRun', options, PLAN_OPTIONS);
  return dryRunPrepared(await prepare(job, { ...options, dryRun: true }));
}
