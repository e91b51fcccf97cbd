import type { HistoryEntry, JobStatus, UsageSample } from '../conf/status.ts';

/**
 * The data that a job's pages show. It comes from the ApplicationMaster while the job runs, and from the history after the job has ended.
 * Each method is one resource under `/tony/api/`; the resources that a page polls are cheap to read repeatedly.
 */
export interface JobView {
  /** `GET /tony/api/job`. */
  status(): Promise<JobStatus>;
  /** `GET /tony/api/configuration`: the stored job.json; values that look like secrets are `***`. */
  configuration(): Promise<unknown>;
  /** `GET /tony/api/events?after=N`. */
  events(after: number): Promise<EventPage>;
  /** `GET /tony/api/usage?after=MS`: the resource usage of the programs since `after`. */
  usage(after: number): Promise<UsagePage>;
  /** `GET /tony/api/scalars`: the scalar curves of the summaries. */
  scalars(): Promise<ScalarCharts>;
  /**
   * `GET /tony/api/log?task=worker:0&file=stderr&tail=BYTES`. Files: stdout, stderr and tony.log. Tasks: the job's, and `master`. Null if
   * the log does not exist.
   */
  log(task: string, file: LogFile, tail: number): Promise<LogTail | null>;
}

export type LogFile = 'stdout' | 'stderr' | 'tony.log';

export interface EventPage {
  readonly entries: readonly HistoryEntry[];
  /** The value of `after` for the next request. */
  readonly next: number;
}

export interface UsagePage {
  readonly samples: readonly UsageSample[];
  /** The value of `after` for the next request, ms since the epoch. */
  readonly next: number;
}

export interface ScalarCharts {
  readonly runs: readonly ScalarRun[];
  /** Why curves are missing or late; empty if none are. */
  readonly message: string;
}

export interface ScalarRun {
  /** The run's folder, relative to the folder of the summaries, as TensorBoard names it; `.` for the folder of the summaries itself. */
  readonly name: string;
  readonly scalars: readonly ScalarSeries[];
}

export interface ScalarSeries {
  readonly tag: string;
  /** Thinned evenly to at most 500 points, including the first and the newest; all three arrays have the same length. */
  readonly steps: readonly number[];
  /** s since the epoch. */
  readonly times: readonly number[];
  /** Null for values that JSON cannot represent (NaN, infinities). */
  readonly values: readonly (number | null)[];
}

export interface LogTail {
  readonly text: string;
  /** The number of bytes of the file before `text`. */
  readonly skipped: number;
}
