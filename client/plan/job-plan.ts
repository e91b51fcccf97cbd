import type { Room } from '../../hadoop/yarn/queue-room.ts';

/** Result of a dry run, with the requested containers, the uploads, and whether the cluster can run the job. */
export interface JobPlan {
  readonly name: string;
  readonly user: string;
  readonly where: 'yarn' | 'local';
  readonly queue: string;
  /** Container requests, starting with the ApplicationMaster's request. */
  readonly containers: readonly PlannedContainers[];
  readonly total: { readonly containers: Span; readonly resources: Readonly<Record<string, Span>> };
  /** The queue's resources, or null if they are unknown. */
  readonly headroom: Headroom | null;
  readonly verdict: Verdict;
  readonly uploads: readonly PlannedUpload[];
  readonly uploadBytes: number;
  readonly notes: readonly string[];
}

/** Minimum amount that the job needs, and maximum amount that it can use. */
export interface Span {
  readonly min: number;
  readonly max: number;
}

export interface PlannedContainers {
  /** `ApplicationMaster`, or the role name. */
  readonly role: string;
  readonly instances: Span;
  /** Resources per container: memory (MiB), vcores, gpus, and other resource types. */
  readonly resources: Room;
  readonly nodeLabel: string | null;
  readonly optional: boolean;
  /**
   * Ranks of the role's processes when the job starts, for example `0-1`. Null if the role has no ranks. An elastic role gets more ranks when
   * it grows.
   */
  readonly ranks: string | null;
  /** Number of containers that fit now, or null if the number is unknown. */
  readonly fitNow: number | null;
  /** Command in job.yaml. Null for the ApplicationMaster and for a TensorBoard role that tony-ts adds. */
  readonly command: string | null;
}

export interface Headroom {
  /** Queue path, such as `root.research.gpu`. */
  readonly queue: string;
  readonly maximum: Room;
  readonly used: Room;
  /** Resources that this user can still request without exceeding the limits for the queue, its parent queues and the user. */
  readonly free: Room;
}

export type Verdict =
  | { readonly type: 'fits' }
  /** The job can start after other jobs have ended or the cluster has grown. */
  | { readonly type: 'waits'; readonly reasons: readonly string[] }
  /**
   * The job would be refused. YARN rejects a job if its queue is stopped, does not admit the user or has no access to the nodes. If the site file sets `over: fail`,
   * the ApplicationMaster fails a job that would exceed a quota total.
   */
  | { readonly type: 'rejected'; readonly reasons: readonly string[] }
  /** The job cannot run even on an idle cluster. */
  | { readonly type: 'impossible'; readonly reasons: readonly string[] }
  /** The ResourceManager does not report enough information to decide. */
  | { readonly type: 'unknown' };

export interface PlannedUpload {
  /** source, tony, runtime, tensorboard, or `data.NAME`. */
  readonly name: string;
  /** Size on HDFS in bytes. */
  readonly bytes: number;
  /** Number of bytes to upload, or 0 if HDFS already has all files. */
  readonly missing: number;
}
