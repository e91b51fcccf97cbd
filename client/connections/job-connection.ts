import type { JobInfo } from '../../conf/status/job-info.ts';
import type { LogPiece } from '../records/log-piece.ts';
import type { JobRecords } from './job-records.ts';

export interface LogSource {
  /** Task name such as `worker:0`, or `master`. */
  readonly task: string;
  readonly containerId: string;
  /** Reads part of a log file, either starting at an offset or only the last `tail` bytes. Returns null if the file does not exist yet. */
  read(file: string, from: { readonly offset: number } | { readonly tail: number }): Promise<LogPiece | null>;
}

/**
 * Reason why a client kills a job: the user's request (`order`), an interruption of the command that followed the job (`interrupt`), or an
 * ApplicationMaster that did not start in time (`start-timeout`).
 */
export type KillReason = 'order' | 'interrupt' | 'start-timeout';

export interface JobConnection {
  readonly id: string;
  readonly trackingUrl: string | null;
  /** URI of the folder for files that the job's programs save. */
  readonly outputUri: string;
  /** Where to find further information about the job. */
  readonly records: JobRecords;
  /** Returns the URL of the job's pages, with an access token if necessary, or null while the pages are not available. */
  pages(): Promise<string | null>;
  /** @throws TonyError JOB_NOT_FOUND, or a connection error if the cluster is unreachable */
  observe(): Promise<JobInfo>;
  /** Kills the job, and records `by` in the job's result as the reason. Returns false if the job had already ended. */
  kill(by?: KillReason): Promise<boolean>;
  /** Returns one log source for each of the job's containers, oldest first. Includes containers that have exited. */
  logs(): Promise<LogSource[]>;
  /**
   * Reads a file from the job's output folder. Returns null if the file does not exist.
   * @throws TonyError JOB_FAILED if the file exceeds `maxBytes`, or a connection error if the cluster is unreachable
   */
  output(name: string, maxBytes: number): Promise<Buffer | null>;
  close(): void;
}
