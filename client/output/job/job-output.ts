import type { EndedJob, Look } from '../../connections/operations/follow-job.ts';
import type { LogLine } from '../../connections/operations/log-reader.ts';
import type { JobPlan } from '../../plan/job-plan.ts';
import type { SubmitRequest } from '../../plan/submit-request.ts';
import type { StagingEvent } from '../../staging/staging.ts';

export interface SubmittedNotice {
  readonly id: string;
  readonly name: string;
  readonly user: string;
  readonly queue: string;
  /** URL of the job's pages, or null for local jobs. */
  readonly trackingUrl: string | null;
}

/** Shows a job's submission and progress as a live table, lines of text, or lines of JSON. */
export interface JobOutput {
  plan(plan: JobPlan): void;
  request(request: SubmitRequest): void;
  staging(event: StagingEvent): void;
  submitted(notice: SubmittedNotice): void;
  /** Shows the URL of the job's pages if the URL was not known when the job was submitted. */
  pages(url: string): void;
  look(look: Look): void;
  /**
   * Shows lines that programs have written. Resolves when the output accepts more lines.
   * @param tasks names of all tasks whose lines are shown
   */
  log(lines: readonly LogLine[], tasks: readonly string[]): Promise<void>;
  report(report: EndedJob): void;
  /** Shows a final message when the user detaches from the job. The previous output remains visible. */
  leave(text: string): void;
  say(text: string): void;
  close(): void;
}
