import type { HistoryEntry } from '../../conf/status.ts';
import type { Storage } from '../../storage/storage.ts';
import type { Found, JobPlace } from './job-place.ts';
import type { LogPiece } from './log-piece.ts';
import type { ClusterAnswer } from './stored-status.ts';

/** The histories of jobs on a cluster or on this machine, and further information about these jobs. */
export interface HistoryStore {
  readonly storage: Storage;
  /** The requesting user. */
  readonly user: string;
  /** URI of the folder that holds the requester's own jobs, including their cache. */
  readonly root: string;
  /** Users with histories in this store. */
  users(): Promise<Found<string>>;
  /** A user's histories, in no particular order. */
  places(user: string): Promise<Found<JobPlace>>;
  /** The history of a job; null if none exists, or if it does not belong to the user. */
  place(user: string, applicationId: string): Promise<JobPlace | null>;
  /**
   * Returns the cluster's answers for jobs without a final status, keyed by folder URI; many jobs share one request. Any user may name a
   * folder after another user's application, so an answer is returned only if the application belongs to `JobPlace.user`.
   */
  answers(places: readonly JobPlace[]): Promise<ReadonlyMap<string, ClusterAnswer>>;
  /** Returns the containers of the ApplicationMaster, oldest first; as for `answers`, none if the application belongs to another user. */
  masters(place: JobPlace, entries: readonly HistoryEntry[]): Promise<string[]>;
  /** Reads the end of a file in a container's log folder; null if the file does not exist or was removed. */
  log(place: JobPlace, containerId: string, file: string, tail: number): Promise<LogPiece | null>;
  /** How long histories are kept (ms). */
  readonly keepMs: number;
  /** Why the requester may not see all histories; empty if all are visible. */
  readonly limits: string;
  close(): void;
}

/** Sorts newest first, by ID: IDs contain the cluster's start time and a counter. */
export function byAge(a: JobPlace, b: JobPlace): number {
  const [, startA = '0', numberA = '0'] = a.applicationId.split('_');
  const [, startB = '0', numberB = '0'] = b.applicationId.split('_');
  return Number(startB) - Number(startA) || Number(numberB) - Number(numberA) || (a.user < b.user ? -1 : 1);
}
