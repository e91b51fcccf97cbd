import { type FrozenJob, type Job, TENSORBOARD_ROLE } from '../../conf/job.ts';
import { EVERY_ROLE } from '../../conf/values/role-name.ts';
import type { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import type { LocalResource } from '../../hadoop/yarn/local-resource.ts';
import { joinUri } from '../../storage/uri.ts';
import { placeUri } from '../files/place-uri.ts';
import { type HistoryPlace, historyUrl } from '../records/history-place.ts';
import { fileSystemsIn } from './job-file-systems.ts';
import type { ByRole } from './job-files.ts';
import { cacheEntriesIn, textsIn } from './job-texts.ts';
import { withTensorBoard } from './tensorboard-role.ts';

export interface FreezeOptions {
  readonly jobId: string;
  readonly user: string;
  readonly submittedAt: number;
  /** URI of the staging root. */
  readonly root: string;
  /** Location of the user's histories. Default: the staging root, which only the user can read. */
  readonly history?: HistoryPlace;
  readonly data: Readonly<Record<string, string>>;
  readonly resources: readonly LocalResource[];
  /** Files and archives that job.yaml lists. */
  readonly files: ByRole<LocalResource>;
  /** The job's Kerberos principal; see FrozenJob. Default: null. */
  readonly principal?: string | null;
  /** Archive that contains TensorBoard, or null if the job does not need TensorBoard or the archive could not be built. */
  readonly tensorboard?: LocalResource | null;
  /** Archive that contains the programs' Python environment, or null if there is none. */
  readonly pythonEnvironment?: LocalResource | null;
  readonly cluster: FrozenJob['cluster'];
  /** Hadoop configuration, or null for a job that does not use HDFS. Default: null. */
  readonly configuration?: HadoopConfiguration | null;
  /** Base URI for relative locations, such as `hdfs://host:8020/user/alice` or the file:// URI of a folder. */
  readonly home: string;
}

/**
 * Returns the contents of job.json. All locations in it are absolute URIs. Finds the file systems and the cache entries that the job uses,
 * including those in commands and environment variables, so that no later reader has to find them.
 */
export function freezeJob(job: Job, options: FreezeOptions): FrozenJob {
  const { jobId, root, home } = options;
  const place = options.history ?? { folder: joinUri(root, 'history'), shared: false, url: null };
  const history = joinUri(place.folder, jobId);
  const outputDir = jobOutput(root, jobId);
  const uses = {
    job: withTensorBoard(job),
    staging: joinUri(root, 'jobs', jobId),
    history,
    checkpointDir: placeUri(job.checkpoint.dir, home) ?? joinUri(outputDir, 'checkpoints'),
    summaryDir: placeUri(job.tensorboard.logdir, home) ?? joinUri(history, 'summaries'),
    outputDir,
    data: options.data,
    resources: options.resources,
    roleResources: roleResources(job, options),
  };
  const texts = textsIn(uses);
  return {
    version: 1,
    jobId,
    user: options.user,
    submittedAt: options.submittedAt,
    ...uses,
    historyShared: place.shared,
    historyUrl: place.url === null ? null : historyUrl(place.url, options.user, jobId),
    principal: options.principal ?? null,
    fileSystems: options.configuration ? fileSystemsIn(texts, options.configuration) : [],
    cacheEntries: cacheEntriesIn(texts),
    cluster: options.cluster,
  };
}

function roleResources({ roles }: Job, { files, tensorboard, pythonEnvironment }: FreezeOptions): FrozenJob['roleResources'] {
  const ofAll = [...(files[EVERY_ROLE] ?? []), ...(pythonEnvironment ? [pythonEnvironment] : [])];
  const ofRoles = roles.map(({ name }) => [name, [...ofAll, ...(files[name] ?? [])]] as const);
  return Object.fromEntries([
    ...ofRoles.filter(([, resources]) => resources.length > 0),
    ...(tensorboard ? [[TENSORBOARD_ROLE, [tensorboard]] as const] : []),
  ]);
}

/**
 * Returns the URI of a job's output folder.
 * @param root URI of the staging root
 */
export function jobOutput(root: string, jobId: string): string {
  return joinUri(root, 'output', jobId);
}
