import type { HistoryEntry } from '../../conf/status/status.ts';
import type { Storage } from '../../storage/storage.ts';
import type { Found, JobPlace } from './job-place.ts';
import type { LogPiece } from './log-piece.ts';
import type { ClusterAnswer } from './stored-status.ts';

export interface HistoryStore {
  readonly storage: Storage;
  /** Name of the user who runs this process. */
  readonly user: string;
  /** URI of this user's staging root. */
  readonly root: string;
  users(): Promise<Found<string>>;
  /** Returns a user's histories, in no particular order. */
  places(user: string): Promise<Found<JobPlace>>;
  /** Returns a job's history, or null if it does not exist. */
  place(user: string, jobId: string): Promise<JobPlace | null>;
  /**
   * Queries the cluster for the state of jobs without a final status, in as few requests as possible. Returns the answers keyed by folder
   * URI. Any user can create a folder that is named after someone else's application. The answer is therefore `forgotten` if
   * `JobPlace.user` did not submit the application.
   */
  answers(places: readonly JobPlace[]): Promise<ReadonlyMap<string, ClusterAnswer>>;
  /**
   * Returns the container ID of each ApplicationMaster attempt, oldest first. Like `answers`, does not disclose other users' applications.
   */
  masters(place: JobPlace, entries: readonly HistoryEntry[]): Promise<string[]>;
  /** Reads the end of a file in a container's log folder. Returns null if the file does not exist. */
  log(place: JobPlace, containerId: string, file: string, tail: number): Promise<LogPiece | null>;
  /**
   * Returns true if this process may read a URI that the job's files contain. Other users' jobs may refer only to file systems that the
   * Hadoop configuration names.
   */
  mayRead(place: JobPlace, uri: string): boolean;
  /** How long histories are kept, in ms. */
  readonly keepMs: number;
  /** Age in ms at which unused cache entries are removed, or null if the site file sets none. */
  readonly cacheMaxAgeMs: number | null;
  /** Reason why this user may not see all histories, or an empty string if the list is complete. */
  readonly limits: string;
  close(): void;
}

/** Compares job IDs for sorting, newest first. An ID consists of the cluster's start time and a counter. */
export function byAge(a: JobPlace, b: JobPlace): number {
  const [, startA = '0', numberA = '0'] = a.jobId.split('_');
  const [, startB = '0', numberB = '0'] = b.jobId.split('_');
  return Number(startB) - Number(startA) || Number(numberB) - Number(numberA) || (a.user < b.user ? -1 : 1);
}
