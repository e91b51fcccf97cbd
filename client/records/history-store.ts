import type { HistoryEntry } from '../../conf/status.ts';
import type { Storage } from '../../storage/storage.ts';
import type { Found, JobPlace } from './job-place.ts';
import type { LogPiece } from './log-piece.ts';
import type { ClusterAnswer } from './stored-status.ts';

/** Histories of jobs, on a cluster or on this machine, and further information about these jobs. */
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
  /** Null if no history exists, or none that belongs to the user. */
  place(user: string, applicationId: string): Promise<JobPlace | null>;
  /**
   * The cluster's answers for jobs without a final status, keyed by folder URI, in one request for many jobs. Any user may name a folder
   * after another user's application: an answer counts only if the application belongs to `JobPlace.user`.
   */
  answers(places: readonly JobPlace[]): Promise<ReadonlyMap<string, ClusterAnswer>>;
  /** Containers of the ApplicationMaster, oldest first. By the same rule, none for another user's application. */
  masters(place: JobPlace, entries: readonly HistoryEntry[]): Promise<string[]>;
  /** The end of a file in a container's log folder; null if the file does not exist (any more). */
  log(place: JobPlace, containerId: string, file: string, tail: number): Promise<LogPiece | null>;
  /** How long histories are kept (ms). */
  readonly keepMs: number;
  /** Why a user may miss histories; empty if all are visible. */
  readonly limits: string;
  close(): void;
}

/** Newest first: IDs contain the cluster's start time and a counter. */
export function byAge(a: JobPlace, b: JobPlace): number {
  const [, startA = '0', numberA = '0'] = a.applicationId.split('_');
  const [, startB = '0', numberB = '0'] = b.applicationId.split('_');
  return Number(startB) - Number(startA) || Number(numberB) - Number(numberA) || (a.user < b.user ? -1 : 1);
}
