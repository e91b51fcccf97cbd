import type { Room } from '../../hadoop/yarn/queue-room.ts';

/** Result of a dry run: the requested containers, whether the cluster can run them, and the uploads. */
export interface JobPlan {
  readonly name: string;
  readonly user: string;
  readonly where: 'yarn' | 'local';
  readonly queue: string;
  /** Container requests in order, starting with the ApplicationMaster. */
  readonly containers: readonly PlannedContainers[];
  readonly total: { readonly containers: Span; readonly resources: Readonly<Record<string, Span>> };
  /** Resources of the queue; null if unknown. */
  readonly headroom: Headroom | null;
  readonly verdict: Verdict;
  readonly uploads: readonly PlannedUpload[];
  readonly uploadBytes: number;
  readonly notes: readonly string[];
}

/** Minimum that the job needs, and maximum that it can use. */
export interface Span {
  readonly least: number;
  readonly most: number;
}

export interface PlannedContainers {
  /** `ApplicationMaster`, or the name of the role. */
  readonly role: string;
  readonly instances: Span;
  /** Resources per container: memory (MiB), vcores, gpus, other resource types. */
  readonly resources: Room;
  readonly nodeLabel: string | null;
  readonly optional: boolean;
  /** Number of containers that fit now; null if unknown. */
  readonly fitNow: number | null;
  /** Command, as in job.yaml; null for the ApplicationMaster and other containers that tony-ts adds. */
  readonly command: string | null;
}

export interface Headroom {
  /** Path of the queue, such as `root.research.gpu`. */
  readonly queue: string;
  readonly maximum: Room;
  readonly used: Room;
  /** Resources that this user can still request, subject to the limits of the queue, its parent queues and the user. */
  readonly free: Room;
}

export type Verdict =
  | { readonly type: 'fits' }
  /** The job can start when other jobs end or the cluster grows. */
  | { readonly type: 'waits'; readonly reasons: readonly string[] }
  /**
   * YARN would reject the job, because its queue is stopped or has no access to the nodes. Also used if the job exceeds a quota total and
   * the site file sets `over: fail`, so the ApplicationMaster would fail the job.
   */
  | { readonly type: 'refused'; readonly reasons: readonly string[] }
  /** The job cannot run even on an idle cluster. */
  | { readonly type: 'never'; readonly reasons: readonly string[] }
  /** The ResourceManager does not report enough information. */
  | { readonly type: 'unknown' };

export interface PlannedUpload {
  /** source, tony, runtime, tensorboard, or `data.NAME`. */
  readonly name: string;
  /** Size on HDFS in bytes. */
  readonly bytes: number;
  /** Number of bytes to upload; 0 if HDFS already has all files. */
  readonly missing: number;
}
