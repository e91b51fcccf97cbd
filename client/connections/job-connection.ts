import type { JobResult, JobStatus } from '../../conf/status.ts';
import type { LogPiece } from '../records/log-piece.ts';
import type { JobRecords } from './job-records.ts';

/** One observation of a job. */
export interface Observation {
  /** The application's state: `ACCEPTED`, `RUNNING`, ... */
  readonly phase: string;
  /** Why the job is not running yet; empty once it runs. */
  readonly waiting: string;
  /** The ApplicationMaster's latest status; null before its first status. */
  readonly status: JobStatus | null;
  /**
   * How long the ApplicationMaster has not answered (ms), which is also the age of `status`. Null while the ApplicationMaster answers or is
   * not running.
   */
  readonly masterSilentMs: number | null;
  /** The job's result; null until it ends. */
  readonly result: JobResult | null;
}

/** The logs of one container. */
export interface LogSource {
  /** `worker:0`, or `master`. */
  readonly task: string;
  readonly containerId: string;
  /** Reads a piece of a log file; null if the file does not exist (yet). With `tail`, reads the last `tail` bytes. */
  read(file: string, from: { readonly offset: number } | { readonly tail: number }): Promise<LogPiece | null>;
}

/**
 * Why a job was killed: by an explicit request (`order`), because the command that followed it was interrupted, or because its
 * ApplicationMaster did not start in time.
 */
export type KillReason = 'order' | 'interrupt' | 'start-timeout';

/** A submitted job, on YARN or on this machine. */
export interface JobConnection {
  readonly applicationId: string;
  readonly trackingUrl: string | null;
  /** Sources of further information about the job. */
  readonly records: JobRecords;
  /** URL of the job's pages, including an access token if the pages require one; null while nothing serves them. */
  pages(): Promise<string | null>;
  /** @throws TonyError APPLICATION_UNKNOWN, or a connection error when the cluster is unreachable. */
  observe(): Promise<Observation>;
  /** Kills the job. Returns false if the job had already ended. `by` becomes the reason in the job's result. */
  kill(by?: KillReason): Promise<boolean>;
  /** Returns the log sources of all containers so far, oldest first. */
  logs(): Promise<LogSource[]>;
  /**
   * Reads a file from the job's output folder; null if the file does not exist.
   * @throws TonyError JOB_FAILED if the file exceeds `maxBytes`, or a connection error if the cluster is unreachable.
   */
  output(name: string, maxBytes: number): Promise<Buffer | null>;
  close(): void;
}
