import type { HistoryEntry, JobStatus, UsageSample } from '../conf/status.ts';

/**
 * What the job's pages show, of a running job (the ApplicationMaster's) or of one that has ended (its history's). Each is one resource under
 * `/tony/api/`; what a page polls is cheap to ask for again and again.
 */
export interface JobView {
  /** `GET /tony/api/job`. */
  status(): Promise<JobStatus>;
  /** `GET /tony/api/configuration`: job.json as it was frozen; values that look like secrets are `***`. */
  configuration(): Promise<unknown>;
  /** `GET /tony/api/events?after=N`. */
  events(after: number): Promise<EventPage>;
  /** `GET /tony/api/usage?after=MS`: what programs used of the machines since. */
  usage(after: number): Promise<UsagePage>;
  /** `GET /tony/api/scalars`: the curves of the summaries. */
  scalars(): Promise<ScalarCharts>;
  /** `GET /tony/api/log?task=worker:0&file=stderr&tail=BYTES`; the files are stdout, stderr and tony.log, the tasks also `master`. Null when there is none. */
  log(task: string, file: LogFile, tail: number): Promise<LogTail | null>;
}

export type LogFile = 'stdout' | 'stderr' | 'tony.log';

export interface EventPage {
  readonly entries: readonly HistoryEntry[];
  /** What to ask for as `after` next time. */
  readonly next: number;
}

export interface UsagePage {
  readonly samples: readonly UsageSample[];
  /** What to ask for as `after` next time, ms since the epoch. */
  readonly next: number;
}

export interface ScalarCharts {
  readonly runs: readonly ScalarRun[];
  /** Why curves are missing or late; empty when nothing is to be said. */
  readonly message: string;
}

export interface ScalarRun {
  /** The folder below the summaries' folder, as TensorBoard names it; `.` for that folder itself. */
  readonly name: string;
  readonly scalars: readonly ScalarSeries[];
}

export interface ScalarSeries {
  readonly tag: string;
  /** Thinned evenly to at most 500 points, the first and the newest among them; all three of equal length. */
  readonly steps: readonly number[];
  /** s since the epoch. */
  readonly times: readonly number[];
  /** What JSON has no word for (NaN, infinities) is null. */
  readonly values: readonly (number | null)[];
}

export interface LogTail {
  readonly text: string;
  /** Bytes of the file before `text`. */
  readonly skipped: number;
}
