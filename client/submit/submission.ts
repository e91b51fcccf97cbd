import type { Job } from '../../conf/job.ts';
import type { OptionNames } from '../../platform/check-options.ts';
import { CLUSTER_OPTIONS, type ClusterOptions } from '../cluster/cluster.ts';
import type { JobConnection } from '../connections/job-connection.ts';
import type { JobPlan } from '../plan/job-plan.ts';
import type { SubmitRequest } from '../plan/submit-request.ts';
import type { StagingEvent } from '../staging/staging.ts';

export interface PlanOptions extends ClusterOptions {
  /** Whether to run the job as processes on this machine. The default is false. */
  readonly local?: boolean;
  /** Folder for local jobs. The default is ~/.tony-ts/local. */
  readonly localRoot?: string | undefined;
  /** Called with progress messages while a runtime is built, and with notes about what the cluster changes in the submission. */
  readonly onProgress?: (line: string) => void;
  /** Aborting this signal cancels the submission and removes the job's files. If the job is already submitted, tony-ts kills it. */
  readonly signal?: AbortSignal | undefined;
}

export interface SubmitOptions extends PlanOptions {
  /** Whether a local job continues when this process exits. The default is false. Jobs on a cluster always continue. */
  readonly detach?: boolean;
  /** Called with the plan before the upload. Not called for local jobs. */
  readonly onPlan?: (plan: JobPlan) => void;
  /** Called with the progress of uploads, and with each file that the cluster already has. */
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

export interface SubmissionOptions extends SubmitOptions {
  /** True for a dry run. A dry run waits longer for responses from the cluster. */
  readonly dryRun?: boolean;
}

/** Checked job. It owns the cluster connection until the caller passes the job to `send` or `dryRunOf`. */
export interface Submission {
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
