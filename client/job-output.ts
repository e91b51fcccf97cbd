import type { JobReport, Look } from './follow-job.ts';
import type { JobPlan } from './plan/job-plan.ts';
import type { StagingEvent } from './staging.ts';
import type { SubmitRequest } from './submit-yarn.ts';

export interface SubmittedNotice {
  readonly applicationId: string;
  readonly name: string;
  readonly queue: string;
  /** Where a browser shows it; null in local mode. */
  readonly trackingUrl: string | null;
}

/** Where a job's life is shown while it is submitted and followed: a live table, lines of text, or lines of JSON. */
export interface JobOutput {
  /** What is asked for, before anything is uploaded. */
  plan(plan: JobPlan): void;
  /** What would be said to the ResourceManager. */
  request(request: SubmitRequest): void;
  staging(event: StagingEvent): void;
  submitted(notice: SubmittedNotice): void;
  /** Where a browser shows the job, when that is known only now. */
  pages(url: string): void;
  look(look: Look): void;
  report(report: JobReport): void;
  /** A line for the person. */
  say(text: string): void;
  /** Leaves the terminal as it was. */
  close(): void;
}
