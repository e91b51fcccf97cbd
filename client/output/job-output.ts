import type { JobReport, Look } from '../connections/follow-job.ts';
import type { JobPlan } from '../plan/job-plan.ts';
import type { SubmitRequest } from '../plan/submit-request.ts';
import type { StagingEvent } from '../staging/staging.ts';

export interface SubmittedNotice {
  readonly applicationId: string;
  readonly name: string;
  readonly queue: string;
  /** The URL for browsers; null in local mode. */
  readonly trackingUrl: string | null;
}

/** Shows the progress of a job while it is submitted and followed: as a live table, lines of text, or lines of JSON. */
export interface JobOutput {
  /** The resources to be requested, before anything is uploaded. */
  plan(plan: JobPlan): void;
  /** The request that a submit would send to the ResourceManager. */
  request(request: SubmitRequest): void;
  staging(event: StagingEvent): void;
  submitted(notice: SubmittedNotice): void;
  /** The URL for browsers, if it becomes known only after the submit. */
  pages(url: string): void;
  look(look: Look): void;
  report(report: JobReport): void;
  /** Called when the user detaches from the running job. The output so far stays above this text. */
  leave(text: string): void;
  /** A message to the user. */
  say(text: string): void;
  /** Restores the terminal. */
  close(): void;
}
