import type { JobResult, JobStatus } from '../conf/status.ts';
import type { JobRecords } from './job-records.ts';

/** One look at a job. */
export interface Observation {
  /** What the cluster says of the application: `ACCEPTED`, `RUNNING`, ... */
  readonly phase: string;
  /** Why nothing runs yet; empty when that is not the case. */
  readonly waiting: string;
  /** What the ApplicationMaster says, or said last; null before it has spoken. */
  readonly status: JobStatus | null;
  /** Once it is over. */
  readonly result: JobResult | null;
}

/** A piece of one of a task's log files. */
export interface LogPiece {
  readonly bytes: Uint8Array;
  /** Offset of the byte after the last one of `bytes`. */
  readonly end: number;
}

/** One container's logs, by the task that ran in it. */
export interface LogSource {
  /** `worker:0`, or `master`. */
  readonly task: string;
  readonly containerId: string;
  /** Null while (or when) there is no such file. `tail`: only so many last bytes, instead of `offset`. */
  read(file: string, from: { readonly offset: number } | { readonly tail: number }): Promise<LogPiece | null>;
}

/** A job that has been submitted, on YARN or on this machine. */
export interface JobConnection {
  readonly applicationId: string;
  readonly trackingUrl: string | null;
  /** Where more is to be learnt of it. */
  readonly records: JobRecords;
  /** Where a browser shows the job now, with the token that lets it in where one is needed; null while nothing does. */
  pages(): Promise<string | null>;
  /** Throws a TonyError: APPLICATION_UNKNOWN, or that the cluster cannot be reached. */
  observe(): Promise<Observation>;
  /** False when it was over already. */
  kill(): Promise<boolean>;
  /** Of every container so far, in the order of their start. */
  logs(): Promise<LogSource[]>;
  /**
   * A file that the job has put into its own output folder; null when there is none.
   * @throws TonyError JOB_FAILED when it has more than `maxBytes`, or that the cluster cannot be reached.
   */
  output(name: string, maxBytes: number): Promise<Buffer | null>;
  close(): void;
}
