import type { OptionNames } from '../../platform/check-options.ts';
import { CLUSTER_OPTIONS, type ClusterOptions } from '../cluster/cluster.ts';
import type { JobPlan } from '../plan/job-plan.ts';
import type { StagingEvent } from '../staging/staging.ts';

export interface PlanOptions extends ClusterOptions {
  /** Runs the job as processes of this machine; default false. */
  readonly local?: boolean;
  /** Folder of local jobs; default ~/.tony-ts/local. */
  readonly localRoot?: string | undefined;
  /** Receives the progress of a runtime build, as lines of text. */
  readonly onProgress?: (line: string) => void;
  /** Aborting this signal cancels the operation and removes the job's files. A job that has already been submitted is killed. */
  readonly signal?: AbortSignal | undefined;
}

export interface SubmitOptions extends PlanOptions {
  /** Whether a local job continues when this process exits; default false. Jobs on a cluster always continue. */
  readonly detach?: boolean;
  /** Receives the plan before the upload. Called only for jobs on a cluster. */
  readonly onPlan?: (plan: JobPlan) => void;
  /** Receives the progress of uploads, and the parts that need no upload. */
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
