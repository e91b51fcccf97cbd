import { mkdir, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { messageOf, TonyError } from '../conf/errors.ts';
import { isUri } from '../conf/is-uri.ts';
import { CONTAINER_LAYOUT, type Job, type Resource } from '../conf/job.ts';
import { FileStorage } from '../storage/file-storage.ts';
import { fileUri } from '../storage/uri.ts';
import { bundlesFolder } from './bundles.ts';
import { freezeJob } from './freeze-job.ts';
import { createJobSecrets } from './job-secrets.ts';
import { isFolderPlaced, placeFolder } from './local-folder.ts';
import { isLocalId, localPaths } from './local-layout.ts';
import { startMaster } from './local-master.ts';
import type { JobPlan } from './plan/job-plan.ts';
import { localPlan } from './plan/make-plan.ts';
import { type HashedFolder, hashFolder } from './source-archive.ts';
import { listData, listFolder, listSource } from './source-folder.ts';
import type { StagingEvent } from './staging.ts';
import { bringsTensorBoard } from './tensorboard-role.ts';
import { untilAborted } from './until-aborted.ts';

/** Ended jobs beyond so many lose their containers' folders; history and output stay. */
const JOBS_KEPT = 20;

export interface LocalSubmitOptions {
  /** Absolute path of the folder of local jobs. */
  readonly root: string;
  readonly user: string;
  /** The job outlives this process. */
  readonly detach: boolean;
  readonly onEvent: (event: StagingEvent) => void;
  /** A line of progress, when a runtime has to be built first. */
  readonly onProgress: (line: string) => void;
  /** Ends the submit before anything is started. */
  readonly signal?: AbortSignal | undefined;
  readonly environment?: NodeJS.ProcessEnv;
}

/** Starts a job on this machine: the very ApplicationMaster and executors that run on YARN, as processes. */
export async function submitLocal(job: Job, options: LocalSubmitOptions): Promise<{ readonly applicationId: string }> {
  const { root, user, detach, environment = process.env } = options;
  const { data, bundles, source } = await localParts(job);
  const resources: Resource[] = [];
  if (source !== null) resources.push(await placeFolder(root, CONTAINER_LAYOUT.source, source, options.onEvent));
  resources.push(await placeFolder(root, CONTAINER_LAYOUT.bundles, bundles, options.onEvent));
  const runtime = await untilAborted(localRuntime(job, options.onProgress), options.signal);
  if (runtime !== null) resources.push(runtime);
  const tensorboard = await untilAborted(localTensorBoard(job, options.onProgress), options.signal);

  options.signal?.throwIfAborted();
  const { applicationId, submittedAt } = await claimId(root);
  const paths = localPaths(root, applicationId);
  try {
    const frozen = freezeJob(job, {
      applicationId,
      user,
      submittedAt,
      root: fileUri(root),
      home: fileUri(process.cwd()),
      data,
      resources,
      tensorboard,
      cluster: { kind: 'local', directory: paths.containers },
    });
    await writeFile(join(paths.job, 'job.json'), JSON.stringify(frozen), { mode: 0o600 });
    const node = runtime === null ? process.execPath : join(CONTAINER_LAYOUT.runtime, 'bin', 'node');
    options.signal?.throwIfAborted();
    await startMaster({ paths, node, resources, user, detach, environment, secrets: createJobSecrets(submittedAt) });
  } catch (error) {
    await rm(paths.job, { recursive: true, force: true });
    throw error;
  }
  // The job runs; what cannot be removed is tried again with the next one.
  await pruneJobs(root, applicationId).catch(() => undefined);
  return { applicationId };
}

/** What would be started and copied; nothing is. */
export async function rehearseHere(job: Job, { root, user }: Pick<LocalSubmitOptions, 'root' | 'user'>): Promise<JobPlan> {
  const { bundles, source } = await localParts(job);
  const part = async (name: string, folder: HashedFolder) => ({
    name,
    bytes: folder.bytes,
    missing: (await isFolderPlaced(root, name, folder)) ? 0 : folder.bytes,
  });
  const parts = [...(source === null ? [] : [await part(CONTAINER_LAYOUT.source, source)]), await part(CONTAINER_LAYOUT.bundles, bundles)];
  return localPlan(job, user, parts);
}

interface LocalParts {
  /** URIs. */
  readonly data: Readonly<Record<string, string>>;
  readonly bundles: HashedFolder;
  readonly source: HashedFolder | null;
}

/** What has to be there before anything is started. */
async function localParts(job: Job): Promise<LocalParts> {
  refuseHdfs(job);
  const data: Record<string, string> = {};
  for (const [name, place] of Object.entries(job.data)) {
    if (isUri(place)) data[name] = place;
    else {
      await listData(place, name);
      data[name] = fileUri(place);
    }
  }
  const bundles = await hashFolder(await listFolder(await bundlesFolder(), 'folder of built programs'));
  return { data, bundles, source: job.source && (await hashFolder(await listSource(job.source.path, job.source.exclude))) };
}

function refuseHdfs(job: Job): void {
  const places = [
    ...Object.entries(job.data),
    ['checkpoint.dir', job.checkpoint.dir],
    ['tensorboard.logdir', job.tensorboard.logdir],
  ] as const;
  for (const [name, place] of places) {
    if (place?.startsWith('hdfs:')) {
      throw new TonyError('JOB_INVALID', `${name} is ${place}, but a local job has only the files of this machine.`, {
        hint: `Submit without --local, or override it: --set ${job.data[name] === undefined ? name : `data.${name}`}=PATH.`,
      });
    }
  }
}

/** What is put under runtime/; null when the Node of this process does. */
async function localRuntime(job: Job, onProgress: (line: string) => void): Promise<Resource | null> {
  if (job.runtime === 'system' || (job.runtime === 'default' && job.framework === 'none')) return null;
  const { ensureRuntime } = await import('./runtime/ensure-runtime.ts');
  if (job.runtime !== 'default' && job.runtime !== 'gpu') {
    throw new TonyError('JOB_INVALID', `runtime is ${job.runtime}, but a local job runs with \`default\`, \`gpu\` or \`system\`.`, {
      hint: 'Override it: --set runtime=default.',
    });
  }
  const { tree, size } = await ensureRuntime(onProgress, { gpu: job.runtime === 'gpu' });
  return { name: CONTAINER_LAYOUT.runtime, uri: fileUri(tree), type: 'archive', visibility: 'private', size, timestamp: 0 };
}

/** TensorBoard as it lies in this machine's cache; null when the job brings none, or goes without. */
async function localTensorBoard(job: Job, onProgress: (line: string) => void): Promise<Resource | null> {
  if (!bringsTensorBoard(job)) return null;
  const { tensorBoardForJob } = await import('./runtime/tensorboard-for-job.ts');
  const built = await tensorBoardForJob(onProgress);
  if (built === null) return null;
  const { tree, size } = built;
  return { name: CONTAINER_LAYOUT.tensorboard, uri: fileUri(tree), type: 'archive', visibility: 'private', size, timestamp: 0 };
}

/** The folder of a new id is made by one submit only. */
async function claimId(root: string): Promise<{ applicationId: string; submittedAt: number }> {
  await mkdir(join(root, 'jobs'), { recursive: true, mode: 0o700 }).catch((error: unknown) => {
    throw new TonyError('STAGING_UNWRITABLE', `The folder ${root} of local jobs cannot be made: ${messageOf(error)}.`, { cause: error });
  });
  const submittedAt = Date.now();
  for (let number = 1; ; number++) {
    const applicationId = `local_${submittedAt}_${String(number).padStart(4, '0')}`;
    try {
      await mkdir(join(root, 'jobs', applicationId), { mode: 0o700 });
      return { applicationId, submittedAt };
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) {
        throw new TonyError('STAGING_UNWRITABLE', `The folder ${root} of local jobs cannot be written: ${messageOf(error)}.`, {
          cause: error,
        });
      }
    }
  }
}

/** Those that have ended, some of which may still be writing their last lines. */
async function pruneJobs(root: string, current: string): Promise<void> {
  const storage = new FileStorage();
  const jobs = (await readdir(join(root, 'jobs'))).filter((name) => isLocalId(name) && name !== current).sort();
  for (const old of jobs.slice(0, Math.max(0, jobs.length - JOBS_KEPT))) {
    const { job, history } = localPaths(root, old);
    if ((await stat(join(history, 'final.json')).catch(() => null)) !== null) await storage.remove(fileUri(job));
  }
}
