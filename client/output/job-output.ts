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
  /** Shows the containers that the job will request, before files are uploaded. */
  plan(plan: JobPlan): void;
  /** Shows the request that a submission would send to the ResourceManager. */
  request(request: SubmitRequest): void;
  staging(event: StagingEvent): void;
  submitted(notice: SubmittedNotice): void;
  /** Shows the URL of the job's pages, if it becomes known only after the submission. */
  pages(url: string): void;
  look(look: Look): void;
  report(report: JobReport): void;
  /** Shows a final text when the user detaches from the running job. Keeps the previous output. */
  leave(text: string): void;
  /** Shows a message to the user. */
  say(text: string): void;
  /** Restores the terminal. */
  close(): void;
}
