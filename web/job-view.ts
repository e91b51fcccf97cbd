import type { JobInfo } from '../conf/status/job-info.ts';
import type { HistoryEntry, UsageSample } from '../conf/status/status.ts';

/**
 * The data for a job's pages. The ApplicationMaster provides the data for a running job, and the history provides the data for a job that
 * has ended. Each method is one resource under `/tony/api/v1/`. Pages poll most resources, so repeated reads must be cheap.
 */
export interface JobView {
  /** `GET /tony/api/v1/job`. */
  status(): Promise<JobInfo>;
  /** `GET /tony/api/v1/configuration`: the stored job.json, in which `***` replaces secrets. */
  configuration(): Promise<unknown>;
  /** `GET /tony/api/v1/events?after=N`. */
  events(after: number): Promise<EventPage>;
  /** `GET /tony/api/v1/usage?after=MS`: the programs' resource usage since `after`. */
  usage(after: number): Promise<UsagePage>;
  /** `GET /tony/api/v1/scalars`: the scalar curves in the summaries. */
  scalars(): Promise<ScalarCharts>;
  /**
   * `GET /tony/api/v1/log?task=worker:0&file=stderr&tail=BYTES`. `task` is one of the job's tasks, a container ID, or `master` for the
   * ApplicationMaster. Resolves to null if the log does not exist.
   */
  log(task: string, file: LogName, tail: number): Promise<LogTail | null>;
}

export type LogName = 'stdout' | 'stderr' | 'tony.log';

export interface EventPage {
  readonly entries: readonly HistoryEntry[];
  /** The value of `after` for the next request. */
  readonly next: number;
}

export interface UsagePage {
  readonly samples: readonly UsageSample[];
  /** The value of `after` for the next request, in ms since the epoch. */
  readonly next: number;
}

export interface ScalarCharts {
  readonly runs: readonly ScalarRun[];
  /** The reason why curves are missing or outdated, or an empty string if all curves are up to date. */
  readonly message: string;
}

export interface ScalarRun {
  /** The run's folder, relative to the summary folder, as in TensorBoard; `.` for the summary folder itself. */
  readonly name: string;
  readonly scalars: readonly ScalarSeries[];
}

export interface ScalarSeries {
  readonly tag: string;
  /**
   * The curve's points, evenly downsampled to at most 500, including the first and the newest point. All three arrays have the same length.
   */
  readonly steps: readonly number[];
  /** Seconds since the epoch. */
  readonly times: readonly number[];
  /** Values that JSON cannot represent (NaN, infinities) are null. */
  readonly values: readonly (number | null)[];
}

export interface LogTail {
  readonly text: string;
  /** The number of bytes in the file before `text`. */
  readonly skipped: number;
}
