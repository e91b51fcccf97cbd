import type { Room } from '../../hadoop/yarn/queue-room.ts';

/** A dry run of a submission: the requests, whether the cluster can satisfy them, and the uploads. */
export interface JobPlan {
  readonly name: string;
  readonly user: string;
  readonly where: 'yarn' | 'local';
  /** The queue as written in the job. */
  readonly queue: string;
  /** In the order of their requests, the ApplicationMaster first. */
  readonly containers: readonly PlannedContainers[];
  /** The sum of all containers. */
  readonly total: { readonly containers: Span; readonly resources: Readonly<Record<string, Span>> };
  /** Resources of the job's queue; null if unknown. */
  readonly headroom: Headroom | null;
  readonly verdict: Verdict;
  readonly uploads: readonly PlannedUpload[];
  /** Bytes still to be uploaded. */
  readonly uploadBytes: number;
  /** Missing information and other remarks. */
  readonly notes: readonly string[];
}

/** The minimum that the job needs, and the maximum that it can use. */
export interface Span {
  readonly least: number;
  readonly most: number;
}

/** The containers of one role. */
export interface PlannedContainers {
  /** `ApplicationMaster`, or the role's name. */
  readonly role: string;
  readonly instances: Span;
  /** Resources of each container: memory (MiB), vcores, gpus, other resource types. */
  readonly resources: Room;
  readonly nodeLabel: string | null;
  /** Whether the job can start and run without the role. */
  readonly optional: boolean;
  /** How many of the containers currently fit; null if unknown. */
  readonly fitNow: number | null;
  /** The command in each container, as in job.yaml; null for containers of tony-ts itself. */
  readonly command: string | null;
}

export interface Headroom {
  /** `root.research.gpu` */
  readonly queue: string;
  /** The queue's maximum resources. */
  readonly maximum: Room;
  readonly used: Room;
  /** The resources that this user may still request within the limits of the queue, its parent queues, and the user. */
  readonly free: Room;
}

export type Verdict =
  /** All required containers currently fit. */
  | { readonly type: 'fits' }
  /** The job starts when other jobs have ended, or the cluster has grown. */
  | { readonly type: 'waits'; readonly reasons: readonly string[] }
  /**
   * YARN would reject the job, because its queue is stopped or may not use the requested nodes. Or the ApplicationMaster would fail it
   * immediately, because the job exceeds a quota total and the site file sets `over: fail`.
   */
  | { readonly type: 'refused'; readonly reasons: readonly string[] }
  /** The job could not run even on an idle cluster, unless its requests change. */
  | { readonly type: 'never'; readonly reasons: readonly string[] }
  /** The ResourceManager does not report enough to decide. */
  | { readonly type: 'unknown' };

export interface PlannedUpload {
  /** source, tony, runtime, tensorboard, or `data.NAME`. */
  readonly name: string;
  /** Size in bytes on HDFS. */
  readonly bytes: number;
  /** Bytes still to be uploaded; 0 if everything is already on HDFS. */
  readonly missing: number;
}
