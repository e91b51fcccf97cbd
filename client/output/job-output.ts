import type { JobReport, Look } from '../connections/follow-job.ts';
import type { LogLine } from '../connections/log-reader.ts';
import type { JobPlan } from '../plan/job-plan.ts';
import type { SubmitRequest } from '../plan/submit-request.ts';
import type { StagingEvent } from '../staging/staging.ts';

export interface SubmittedNotice {
  readonly applicationId: string;
  readonly name: string;
  readonly queue: string;
  /** URL of the job's pages, or null for local jobs. */
  readonly trackingUrl: string | null;
}

/** Shows the submission and the progress of a job, either as a live table, lines of text, or lines of JSON. */
export interface JobOutput {
  plan(plan: JobPlan): void;
  request(request: SubmitRequest): void;
  staging(event: StagingEvent): void;
  submitted(notice: SubmittedNotice): void;
  /** Shows the URL of the job's pages if the URL was not known at the submission. */
  pages(url: string): void;
  look(look: Look): void;
  /**
   * Shows lines of programs. Resolves when the output accepts more lines.
   * @param tasks names of all tasks whose lines are shown
   */
  log(lines: readonly LogLine[], tasks: readonly string[]): Promise<void>;
  report(report: JobReport): void;
  /** Shows a last message when the user detaches from the job. The previous output remains visible. */
  leave(text: string): void;
  say(text: string): void;
  close(): void;
}
