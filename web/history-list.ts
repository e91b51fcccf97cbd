import type { JobStatus } from '../conf/status/status.ts';

/** The response to `GET api/history`: the jobs on the history page, newest first. */
export interface HistoryList {
  readonly jobs: readonly HistorySummary[];
  /** The reason why some jobs are missing from the list, or an empty string if the list is complete. */
  readonly message: string;
}

export interface HistorySummary
  extends Pick<JobStatus, 'applicationId' | 'user' | 'name' | 'queue' | 'state' | 'submittedAt' | 'startedAt' | 'step' | 'message'> {
  /** Null if the job is still running or ended without a final status. */
  readonly finishedAt: number | null;
  /** The URL of the job's page, relative to the index page. */
  readonly href: string;
}
