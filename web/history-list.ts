import type { ListedJob } from '../conf/status/job-info.ts';

/** The response to `GET api/v1/history`: the jobs on the history page, newest first. `urls.pages` is relative to the history page. */
export interface HistoryList {
  readonly jobs: readonly ListedJob[];
  /** The reason why some jobs are missing from the list, or an empty string if the list is complete. */
  readonly message: string;
}
