import type { HistoryEntry } from '../../conf/status.ts';
import type { Storage } from '../../storage/storage.ts';
import type { LogPiece } from '../job-connection.ts';
import type { ClusterAnswer } from './stored-status.ts';

/** Where the history of a job lies. */
export interface JobPlace {
  readonly applicationId: string;
  /** Who owns it. */
  readonly user: string;
  /** URI of its folder. */
  readonly folder: string;
}

/** Histories of jobs, on a cluster or of this machine, and what is to be known of the jobs from elsewhere. */
export interface HistoryStore {
  readonly storage: Storage;
  /** Who asks. */
  readonly user: string;
  /** Users whose histories are here. */
  users(): Promise<string[]>;
  /** Every history of a user, in no order. */
  places(user: string): Promise<JobPlace[]>;
  /** Null when there is none, or none that is the user's own. */
  place(user: string, applicationId: string): Promise<JobPlace | null>;
  /** What the cluster says of jobs that left no end; one question for many. */
  answers(applicationIds: readonly string[]): Promise<ReadonlyMap<string, ClusterAnswer>>;
  /** Containers of the ApplicationMaster, the oldest first. */
  masters(place: JobPlace, entries: readonly HistoryEntry[]): Promise<string[]>;
  /** The end of a file in a container's log folder; null when there is none (any more). */
  log(place: JobPlace, containerId: string, file: string, tail: number): Promise<LogPiece | null>;
  /** How long histories are kept (ms). */
  readonly keepMs: number;
  /** Why a user may miss histories; empty when nothing is missing. */
  readonly limits: string;
  close(): void;
}

/** Newest first: ids hold the start of the cluster and count up. */
export function byAge(a: JobPlace, b: JobPlace): number {
  const [, startA = '0', numberA = '0'] = a.applicationId.split('_');
  const [, startB = '0', numberB = '0'] = b.applicationId.split('_');
  return Number(startB) - Number(startA) || Number(numberB) - Number(numberA) || (a.user < b.user ? -1 : 1);
}
