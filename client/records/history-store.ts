import type { HistoryEntry } from '../../conf/status/status.ts';
import type { Storage } from '../../storage/storage.ts';
import type { Found, JobPlace } from './job-place.ts';
import type { LogPiece } from './log-piece.ts';
import type { ClusterAnswer } from './stored-status.ts';

export interface HistoryStore {
  readonly storage: Storage;
  /** User of this process. */
  readonly user: string;
  /** URI of the folder with the jobs and the cache of this user. */
  readonly root: string;
  users(): Promise<Found<string>>;
  /** Returns the histories of a user, in no particular order. */
  places(user: string): Promise<Found<JobPlace>>;
  /** Returns the history of a job, or null if it does not exist. */
  place(user: string, applicationId: string): Promise<JobPlace | null>;
  /**
   * Queries the cluster, in few requests, for the state of jobs without a final status. Returns the answers by folder URI. The answer is
   * `forgotten` if `JobPlace.user` did not submit the application, because any user can create a folder with its ID.
   */
  answers(places: readonly JobPlace[]): Promise<ReadonlyMap<string, ClusterAnswer>>;
  /** Returns the containers of the ApplicationMaster, oldest first. Like `answers`, does not reveal other users' applications. */
  masters(place: JobPlace, entries: readonly HistoryEntry[]): Promise<string[]>;
  /** Reads the end of a file in the log folder of a container; returns null if the file does not exist. */
  log(place: JobPlace, containerId: string, file: string, tail: number): Promise<LogPiece | null>;
  /** How long histories are kept (ms). */
  readonly keepMs: number;
  /** Age limit (ms) of unused cache entries; null if the site file sets none. */
  readonly cacheMaxAgeMs: number | null;
  /** Why some histories may be missing for this user; empty if the list is complete. */
  readonly limits: string;
  close(): void;
}

/** Sorts by ID, newest first. IDs consist of the cluster's start time and a counter. */
export function byAge(a: JobPlace, b: JobPlace): number {
  const [, startA = '0', numberA = '0'] = a.applicationId.split('_');
  const [, startB = '0', numberB = '0'] = b.applicationId.split('_');
  return Number(startB) - Number(startA) || Number(numberB) - Number(numberA) || (a.user < b.user ? -1 : 1);
}
