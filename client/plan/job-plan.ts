import type { Room } from '../../hadoop/queue-room.ts';

/** What a job would ask for, whether it would get it, and what would be uploaded, before any of it is done. */
export interface JobPlan {
  readonly name: string;
  readonly user: string;
  readonly where: 'yarn' | 'local';
  /** As the job names it. */
  readonly queue: string;
  /** In the order in which their containers are asked for, the ApplicationMaster first. */
  readonly containers: readonly PlannedContainers[];
  /** All of them together. */
  readonly total: { readonly containers: Span; readonly resources: Readonly<Record<string, Span>> };
  /** The queue that the job names; null where nobody says. */
  readonly headroom: Headroom | null;
  readonly verdict: Verdict;
  readonly uploads: readonly PlannedUpload[];
  /** Bytes that are not there yet. */
  readonly uploadBytes: number;
  /** What could not be found out, and what else is worth a line. */
  readonly notes: readonly string[];
}

/** From the least with which the job runs to the most that it takes. */
export interface Span {
  readonly least: number;
  readonly most: number;
}

/** The containers of one role. */
export interface PlannedContainers {
  /** `ApplicationMaster`, or the role's name. */
  readonly role: string;
  readonly instances: Span;
  /** Of each: memory (MiB), vcores, gpus, other resource types. */
  readonly resources: Room;
  readonly nodeLabel: string | null;
  /** The job begins without it, and runs without it. */
  readonly optional: boolean;
  /** How many of them there is room for now; null where nobody says. */
  readonly fitNow: number | null;
  /** What is started in each, as job.yaml says it; null of what is tony-ts's own. */
  readonly command: string | null;
}

export interface Headroom {
  /** `root.research.gpu` */
  readonly queue: string;
  /** The most that the queue may have. */
  readonly maximum: Room;
  readonly used: Room;
  /** What is left to this user: of the queue, of those above it, and by the user's own limit. */
  readonly free: Room;
}

export type Verdict =
  /** There is room for all that the job needs. */
  | { readonly type: 'fits' }
  /** It begins when others have ended, or the cluster has grown. */
  | { readonly type: 'waits'; readonly reasons: readonly string[] }
  /** YARN would not take it on: its queue does not run, or may not use such nodes. Or the ApplicationMaster would end it at once: the site file says that jobs do not wait. */
  | { readonly type: 'refused'; readonly reasons: readonly string[] }
  /** Nothing that others do helps: something has to be asked for differently. */
  | { readonly type: 'never'; readonly reasons: readonly string[] }
  /** The ResourceManager does not say enough. */
  | { readonly type: 'unknown' };

export interface PlannedUpload {
  /** source, tony, runtime, tensorboard, or `data.NAME`. */
  readonly name: string;
  /** Bytes as they are, or would be, on HDFS. */
  readonly bytes: number;
  /** Of these, what is still to be uploaded; 0 when all of it is there. */
  readonly missing: number;
}
