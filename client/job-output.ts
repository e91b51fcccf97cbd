import type { JobReport, Look } from './follow-job.ts';
import type { StagingEvent } from './staging.ts';

export interface SubmittedNotice {
  readonly applicationId: string;
  readonly name: string;
  readonly queue: string;
  /** Where a browser shows it; null in local mode. */
  readonly trackingUrl: string | null;
}

/** Where a job's life is shown while it is submitted and followed: a live table, lines of text, or lines of JSON. */
export interface JobOutput {
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
