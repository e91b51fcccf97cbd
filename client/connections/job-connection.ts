import type { JobResult, JobStatus } from '../../conf/status/status.ts';
import type { LogPiece } from '../records/log-piece.ts';
import type { JobRecords } from './job-records.ts';

export interface Observation {
  /** YARN application state, such as `ACCEPTED` or `RUNNING`. */
  readonly phase: string;
  /** Why the job is not running yet. Empty once it is running. */
  readonly waiting: string;
  /** Latest status from the ApplicationMaster; null before its first status. */
  readonly status: JobStatus | null;
  /**
   * Time (ms) since the ApplicationMaster last responded. This is also the age of `status`. Null while the ApplicationMaster responds or is
   * not running.
   */
  readonly masterSilentMs: number | null;
  /** Result of the job; null until it ends. */
  readonly result: JobResult | null;
}

export interface LogSource {
  /** Task name such as `worker:0`, or `master`. */
  readonly task: string;
  readonly containerId: string;
  /** Reads a part of a log file: from an offset, or the last `tail` bytes. Returns null if the file does not exist yet. */
  read(file: string, from: { readonly offset: number } | { readonly tail: number }): Promise<LogPiece | null>;
}

/**
 * Why a client kills a job. `order`: an explicit request. `interrupt`: the command that followed the job was interrupted. `start-timeout`:
 * the ApplicationMaster did not start in time.
 */
export type KillReason = 'order' | 'interrupt' | 'start-timeout';

export interface JobConnection {
  readonly applicationId: string;
  readonly trackingUrl: string | null;
  /** Files and services with details of the job. */
  readonly records: JobRecords;
  /** URL of the job's pages, with an access token if necessary; null while there are no pages. */
  pages(): Promise<string | null>;
  /** @throws TonyError APPLICATION_UNKNOWN, or a connection error if the cluster is unreachable. */
  observe(): Promise<Observation>;
  /** Kills the job. Returns false if the job had already ended. `by` determines the reason in the job result. */
  kill(by?: KillReason): Promise<boolean>;
  /** Returns the logs of all containers, including ended ones, oldest first. */
  logs(): Promise<LogSource[]>;
  /**
   * Reads a file from the job's output folder; returns null if it does not exist.
   * @throws TonyError JOB_FAILED if the file exceeds `maxBytes`, or a connection error if the cluster is unreachable.
   */
  output(name: string, maxBytes: number): Promise<Buffer | null>;
  close(): void;
}
