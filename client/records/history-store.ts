import type { HistoryEntry } from '../../conf/status.ts';
import type { Storage } from '../../storage/storage.ts';
import type { Found, JobPlace } from './job-place.ts';
import type { LogPiece } from './log-piece.ts';
import type { ClusterAnswer } from './stored-status.ts';

/** The histories of jobs on a cluster or on this machine. */
export interface HistoryStore {
  readonly storage: Storage;
  /** The requesting user. */
  readonly user: string;
  /** URI of the folder that contains the requesting user's jobs and cache. */
  readonly root: string;
  /** Returns the users with histories in this store. */
  users(): Promise<Found<string>>;
  /** Returns a user's histories, unordered. */
  places(user: string): Promise<Found<JobPlace>>;
  /** Returns the history of a user's job; null if it does not exist. */
  place(user: string, applicationId: string): Promise<JobPlace | null>;
  /**
   * Asks the cluster about jobs without a final status, with few requests. Returns the answers by folder URI. Any user may create a folder
   * with the ID of another user's application, so the answer is `forgotten` unless `JobPlace.user` submitted the application.
   */
  answers(places: readonly JobPlace[]): Promise<ReadonlyMap<string, ClusterAnswer>>;
  /** Returns the containers of the ApplicationMaster, oldest first. Like `answers`, reveals nothing about other users' applications. */
  masters(place: JobPlace, entries: readonly HistoryEntry[]): Promise<string[]>;
  /** Reads the end of a file in a container's log folder; null if the file does not exist or was removed. */
  log(place: JobPlace, containerId: string, file: string, tail: number): Promise<LogPiece | null>;
  /** How long histories are kept (ms). */
  readonly keepMs: number;
  /** Why some histories may not be visible to the requesting user; empty if all are visible. */
  readonly limits: string;
  close(): void;
}

/** Sorts by ID, newest first: an ID consists of the cluster's start time and a counter. */
export function byAge(a: JobPlace, b: JobPlace): number {
  const [, startA = '0', numberA = '0'] = a.applicationId.split('_');
  const [, startB = '0', numberB = '0'] = b.applicationId.split('_');
  return Number(startB) - Number(startA) || Number(numberB) - Number(numberA) || (a.user < b.user ? -1 : 1);
}
