import type { OptionNames } from '../../platform/check-options.ts';
import { CLUSTER_OPTIONS, type ClusterOptions } from '../cluster/cluster.ts';
import type { JobPlan } from '../plan/job-plan.ts';
import type { StagingEvent } from '../staging/staging.ts';

export interface PlanOptions extends ClusterOptions {
  /** Whether to run the job as processes on this machine. The default is false. */
  readonly local?: boolean;
  /** Folder for local jobs. The default is ~/.tony-ts/local. */
  readonly localRoot?: string | undefined;
  /** Called with progress messages while a runtime is built. */
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
