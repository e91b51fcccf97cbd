import type { JobStatus } from '../conf/status.ts';

/** The response to `GET api/history`, which the index of finished jobs shows; the newest job first. */
export interface HistoryList {
  readonly jobs: readonly HistorySummary[];
  /** Why some jobs are missing; empty if none are. */
  readonly message: string;
}

export interface HistorySummary {
  readonly applicationId: string;
  readonly user: string;
  readonly name: string;
  readonly queue: string;
  readonly state: JobStatus['state'];
  readonly startedAt: number;
  /** Null for a job that is still running or ended without recording it. */
  readonly finishedAt: number | null;
  readonly step: number;
  /** The job's final message. */
  readonly message: string;
  /** The URL of the job's page, relative to the index page. */
  readonly href: string;
}
