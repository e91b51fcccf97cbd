import type { JobStatus } from '../conf/status.ts';

/** What `GET api/history` beside the index of finished jobs answers; the newest job first. */
export interface HistoryList {
  readonly jobs: readonly HistorySummary[];
  /** Why some are missing; empty when nothing is to be said. */
  readonly message: string;
}

export interface HistorySummary {
  readonly applicationId: string;
  readonly user: string;
  readonly name: string;
  readonly queue: string;
  readonly state: JobStatus['state'];
  readonly startedAt: number;
  /** Null for a job that has not ended, or was cut off before it could tell. */
  readonly finishedAt: number | null;
  readonly step: number;
  /** How it ended. */
  readonly message: string;
  /** Of its page, relative to the index page. */
  readonly href: string;
}
