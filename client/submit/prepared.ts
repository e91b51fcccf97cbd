import type { Job } from '../../conf/job.ts';
import type { JobConnection } from '../connections/job-connection.ts';
import type { JobPlan } from '../plan/job-plan.ts';
import type { SubmitRequest } from '../plan/submit-request.ts';
import type { SubmitOptions } from './submit-options.ts';

export interface PrepareOptions extends SubmitOptions {
  /** True for a dry run. A dry run waits longer for responses from the cluster. */
  readonly dryRun?: boolean;
}

/** Checked job. It owns the cluster connection until the caller passes the job to `submitPrepared` or `dryRunPrepared`. */
export interface Prepared {
  readonly job: Job;
  readonly plan: JobPlan;
  readonly signal: AbortSignal | undefined;
  /** Returns the submission request. `***` replaces every secret. */
  request(): SubmitRequest | null;
  /** Uploads the files, submits the job, and transfers ownership of the cluster connection to the returned connection. */
  submit(): Promise<JobConnection>;
  /** Removes temporary files. If the job has not been submitted, also closes the cluster connection. */
  close(): Promise<void>;
}
