import path from 'node:path';
import type { FrozenJob, Job, Resource } from '../conf/job.ts';
import { fileUri, joinUri } from '../storage/uri.ts';

export interface FreezeOptions {
  readonly applicationId: string;
  readonly user: string;
  readonly submittedAt: number;
  /** URI of the staging root. */
  readonly root: string;
  readonly data: Readonly<Record<string, string>>;
  readonly resources: readonly Resource[];
  readonly cluster: FrozenJob['cluster'];
  /** What a place without a scheme is relative to: `hdfs://host:8020/user/alice`, or a folder's file:// URI. */
  readonly home: string;
}

/** The job as ApplicationMaster and executors read it: all places are URIs, nothing of the submitting machine is left. */
export function freezeJob(job: Job, options: FreezeOptions): FrozenJob {
  const { applicationId, root, home } = options;
  const output = joinUri(root, 'output', applicationId);
  return {
    version: 1,
    applicationId,
    user: options.user,
    submittedAt: options.submittedAt,
    job,
    staging: joinUri(root, 'jobs', applicationId),
    history: joinUri(root, 'history', applicationId),
    historyShared: false,
    historyUrl: null,
    checkpointDir: placeUri(job.checkpoint.dir, home) ?? joinUri(output, 'checkpoints'),
    summaryDir: placeUri(job.tensorboard.logdir, home) ?? joinUri(output, 'summaries'),
    data: options.data,
    resources: options.resources,
    roleResources: {},
    cluster: options.cluster,
  };
}

/** `out/x`, `/out/x`, `hdfs:///out/x`, `hdfs://host/out/x` -> a whole URI. */
export function placeUri(place: string | null, home: string): string | null {
  if (place === null) return null;
  const [, scheme, authority] = /^([a-z][a-z0-9+.-]*:\/\/)([^/]*)/i.exec(home) ?? [];
  const root = `${scheme ?? ''}${authority ?? ''}`;
  if (place.startsWith(`${scheme}/`)) return `${root}${place.slice((scheme ?? '').length)}`;
  if (hasScheme(place)) return place;
  if (scheme === 'file://') return fileUri(path.resolve(decodeURIComponent(home.slice(root.length)), place));
  return place.startsWith('/')
    ? `${root}${path.posix.normalize(place)}`
    : joinUri(home, ...place.split('/').filter((part) => part !== '.'));
}

export function hasScheme(place: string): boolean {
  return /^[a-z][a-z0-9+.-]*:\/\//i.test(place);
}
