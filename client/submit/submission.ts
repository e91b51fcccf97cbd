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
  /**
   * Called with each line that `tony-ts submit` prints until the job has started: the steps while a runtime is built, the notes about the
   * job, each file that is uploaded or copied (unless `onStaging` is set), the job's ID, and what the cluster changes in the submission.
   */
  readonly onProgress?: (line: string) => void;
  /** Aborting this signal cancels the submission and removes the job's files. If the job is already submitted, tony-ts kills it. */
  readonly signal?: AbortSignal | undefined;
}

export interface SubmitOptions extends PlanOptions {
  /** Whether a local job continues when this process exits. The default is false. Jobs on a cluster always continue. */
  readonly detach?: boolean;
  /** Called with the plan before the upload, instead of `onProgress` with its notes. Not called for local jobs. */
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

/**
 * Shows the plan of a job that is about to be submitted. A program without `onPlan` receives only the notes, and so does the command for a
 * local job, because the rest of a local plan repeats the job file.
 */
export function showPlan(plan: JobPlan, { onPlan, onProgress }: SubmissionOptions): void {
  if (plan.where === 'yarn' && onPlan !== undefined) {
    onPlan(plan);
    return;
  }
  for (const note of plan.notes) {
    onProgress?.(note);
  }
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
