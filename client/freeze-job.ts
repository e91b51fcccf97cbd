import { type FrozenJob, type Job, type Resource, TENSORBOARD_ROLE } from '../conf/job.ts';
import { joinUri } from '../storage/uri.ts';
import { type HistoryPlace, historyUrl } from './history/history-place.ts';
import { placeUri } from './place-uri.ts';
import { withTensorBoard } from './tensorboard-role.ts';

export interface FreezeOptions {
  readonly applicationId: string;
  readonly user: string;
  readonly submittedAt: number;
  /** URI of the staging root. */
  readonly root: string;
  /** Where the user's histories lie; by default in the staging root, and nobody else reads them. */
  readonly history?: HistoryPlace;
  readonly data: Readonly<Record<string, string>>;
  readonly resources: readonly Resource[];
  /** TensorBoard's packages; none when the job brings none, or goes without. */
  readonly tensorboard?: Resource | null;
  readonly cluster: FrozenJob['cluster'];
  /** What a place without a scheme is relative to: `hdfs://host:8020/user/alice`, or a folder's file:// URI. */
  readonly home: string;
}

/** The job as ApplicationMaster and executors read it: all places are URIs, nothing of the submitting machine is left. */
export function freezeJob(job: Job, options: FreezeOptions): FrozenJob {
  const { applicationId, root, home } = options;
  const place = options.history ?? { folder: joinUri(root, 'history'), shared: false, url: null };
  const history = joinUri(place.folder, applicationId);
  const outputDir = jobOutput(root, applicationId);
  return {
    version: 1,
    applicationId,
    user: options.user,
    submittedAt: options.submittedAt,
    job: withTensorBoard(job),
    staging: joinUri(root, 'jobs', applicationId),
    history,
    historyShared: place.shared,
    historyUrl: place.url === null ? null : historyUrl(place.url, options.user, applicationId),
    checkpointDir: placeUri(job.checkpoint.dir, home) ?? joinUri(outputDir, 'checkpoints'),
    summaryDir: placeUri(job.tensorboard.logdir, home) ?? joinUri(history, 'summaries'),
    outputDir,
    data: options.data,
    resources: options.resources,
    roleResources: options.tensorboard ? { [TENSORBOARD_ROLE]: [options.tensorboard] } : {},
    cluster: options.cluster,
  };
}

/** @param root URI of the staging root. */
export function jobOutput(root: string, applicationId: string): string {
  return joinUri(root, 'output', applicationId);
}
