import { mkdir, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { frameworkOf } from '../../conf/frameworks.ts';
import { CONTAINER_LAYOUT, type Job } from '../../conf/job.ts';
import { isUri } from '../../conf/values/is-uri.ts';
import { hadoopUser } from '../../hadoop/configuration/configuration.ts';
import { HDFS_URI } from '../../hadoop/configuration/file-systems/hdfs-place.ts';
import type { LocalResource } from '../../hadoop/yarn/local-resource.ts';
import { untilAborted } from '../../platform/async/until-aborted.ts';
import { TonyError } from '../../platform/errors.ts';
import { makeFolders } from '../../platform/files/make-folders.ts';
import { writeIfAbsent } from '../../platform/files/write-if-absent.ts';
import { FileStorage } from '../../storage/file-storage.ts';
import type { JobConnections } from '../../storage/s3/s3-connection.ts';
import { fileUri, joinUri } from '../../storage/uri.ts';
import { localObjectStores } from '../cluster/object-stores.ts';
import { LocalJob } from '../connections/local-job.ts';
import { startMaster } from '../connections/local-master.ts';
import { isLocalId, localPaths } from '../files/local-layout.ts';
import { freezeJob } from '../job/freeze-job.ts';
import { keyOf } from '../job/job-files.ts';
import { keytabProblem } from '../job/job-keytab.ts';
import { objectStoreOf } from '../job/job-object-store.ts';
import { createJobSecrets } from '../job/job-secrets.ts';
import { listData } from '../job/source-folder.ts';
import { jobNotes } from '../plan/job-notes.ts';
import { localPlan } from '../plan/make-plan.ts';
import { refuseMissingPrograms } from '../plan/program-files.ts';
import { placeFile } from '../staging/local-file.ts';
import { isFolderPlaced, localFailure, localRoot, placeFolder } from '../staging/local-folder.ts';
import { removedFromCache } from '../staging/staging.ts';
import { environmentFor, findSourceParts, runtimeFor, type SourceParts, tensorBoardFor } from './parts.ts';
import { type Submission, type SubmissionOptions, showPlan } from './submission.ts';

/** Container folders are kept only for this many of the newest jobs. Histories and outputs are kept for all jobs. */
const JOBS_KEPT = 20;

/** Checks a job whose ApplicationMaster and executors will run as processes on this machine. Does not start anything. */
export async function openLocalSubmission(job: Job, options: SubmissionOptions): Promise<Submission> {
  const { env: environment = process.env } = options;
  const user = hadoopUser(options.env);
  const s3 = await objectStoreOf(job, localObjectStores(environment));
  refuseHdfs(job);
  refuseRuntime(job);
  const parts = { data: await localData(job), ...(await findSourceParts(job)) };
  refuseMissingPrograms(job, parts.source);
  const root = options.localRoot ?? localRoot(options.env);
  const sizes = [
    ...(parts.source === null ? [] : [[CONTAINER_LAYOUT.source, parts.source] as const]),
    [CONTAINER_LAYOUT.bundles, parts.bundles] as const,
  ];
  const planned = await Promise.all(
    sizes.map(async ([name, folder]) => ({
      name,
      bytes: folder.bytes,
      missing: (await isFolderPlaced(root, name, folder)) ? 0 : folder.bytes,
    })),
  );
  const keytab = { keytab: null, keytabProblem: await keytabProblem(job.kerberos) };
  const plan = localPlan(job, user, planned, jobNotes(job, { source: parts.source, configuration: null, ...keytab }));
  return {
    job,
    plan,
    signal: options.signal,
    request: () => null,
    submit: async () => {
      showPlan(plan, options);
      return new LocalJob(await startJob(job, parts, { root, user, s3 }, options), root);
    },
    close: async () => {},
  };
}

async function startJob(
  job: Job,
  { data, bundles, source, files }: SourceParts & { readonly data: Readonly<Record<string, string>> },
  { root, user, s3 }: { readonly root: string; readonly user: string; readonly s3: JobConnections | null },
  { detach = false, env: environment = process.env, signal, onStaging = () => {}, onProgress = () => {} }: SubmissionOptions,
): Promise<string> {
  // Check the requirements file before copying the source, because the source contains this file and the file may contain a password.
  const pythonEnvironment = await untilAborted(localEnvironment(job, root, { onProgress, onStaging, signal }), signal);
  const resources: LocalResource[] = [];
  if (source !== null) {
    resources.push(await placeFolder(root, CONTAINER_LAYOUT.source, source, onStaging));
  }
  resources.push(await placeFolder(root, CONTAINER_LAYOUT.bundles, bundles, onStaging));
  const placed: Record<string, LocalResource[]> = {};
  for (const [role, ofRole] of Object.entries(files)) {
    placed[role] = [];
    for (const file of ofRole) {
      signal?.throwIfAborted();
      placed[role].push(await placeFile(root, file, onStaging, signal));
    }
  }
  const runtime = await untilAborted(localRuntime(job, onProgress), signal);
  if (runtime !== null) {
    resources.push(runtime);
  }
  const tensorboard = await untilAborted(localTensorBoard(job, onProgress), signal);

  signal?.throwIfAborted();
  const { applicationId, submittedAt } = await claimId(root);
  const paths = localPaths(root, applicationId);
  try {
    const frozen = freezeJob(job, {
      jobId: applicationId,
      user,
      submittedAt,
      root: fileUri(root),
      home: fileUri(process.cwd()),
      data,
      resources,
      files: placed,
      tensorboard,
      pythonEnvironment,
      cluster: { kind: 'local', directory: paths.containers },
    });
    const text = JSON.stringify(frozen);
    // Write the file atomically, because a concurrent prune may read it.
    await writeIfAbsent(join(paths.job, 'job.json'), text, 0o600);
    await refuseRemoved(root, [...[...resources, ...Object.values(placed).flat()].map(({ uri }) => uri), ...Object.values(data)]);
    const node = runtime === null ? process.execPath : join(CONTAINER_LAYOUT.runtime, 'bin', 'node');
    signal?.throwIfAborted();
    await startMaster({ paths, node, resources, user, detach, environment, secrets: createJobSecrets(submittedAt, text, s3) });
  } catch (error) {
    await rm(paths.job, { recursive: true, force: true });
    throw localFailure(root, error);
  }
  // Ignore failures, because the job is already running and the next submission tries again.
  await pruneJobs(root, applicationId).catch(() => undefined);
  return applicationId;
}

/** Returns the URI of each of the job's inputs, which tasks on this machine read where they are. */
async function localData(job: Job): Promise<Readonly<Record<string, string>>> {
  const data: Record<string, string> = {};
  for (const [name, place] of Object.entries(job.data)) {
    if (isUri(place)) {
      data[name] = place;
    } else {
      await listData(place, name);
      data[name] = fileUri(place);
    }
  }
  return data;
}

/** Verifies that the cached files still exist after job.json has been written; see `refuseRemoved` in parts.ts. */
async function refuseRemoved(root: string, uris: readonly string[]): Promise<void> {
  const cached = joinUri(fileUri(root), 'cache');
  const files = uris.filter((uri) => uri.startsWith(`${cached}/`)).map((uri) => fileURLToPath(uri));
  const removed = await Promise.all(files.map(async (file) => ((await stat(file).catch(() => null)) === null ? [file] : [])));
  if (removed.flat().length > 0) {
    throw removedFromCache(removed.flat());
  }
}

function refuseHdfs(job: Job): void {
  const places = [
    ...Object.entries(job.data),
    ['checkpoint.dir', job.checkpoint.dir],
    ['tensorboard.logdir', job.tensorboard.logdir],
    ['python.archive', job.python.type === 'archive' ? job.python.path : null],
    ...job.files.map((file) => [keyOf(file), file.path] as const),
    ...job.roles.flatMap(({ name, files }) => files.map((file) => [`roles.${name}.${keyOf(file)}`, file.path] as const)),
  ] as const;
  for (const [name, place] of places) {
    if (place !== null && HDFS_URI.test(place)) {
      throw new TonyError('JOB_INVALID', `${name} is ${place}, but a local job can read only files on this machine.`, {
        hint: `Submit without --local, or pass a path: --set ${job.data[name] === undefined ? name : `data.${name}`}=PATH.`,
      });
    }
  }
}

function refuseRuntime({ runtime }: Job): void {
  if (['default', 'gpu', 'system'].includes(runtime)) {
    return;
  }
  throw new TonyError('JOB_INVALID', `runtime is ${runtime}, but a local job can use only \`default\`, \`gpu\` or \`system\`.`, {
    hint: 'Override it: --set runtime=default.',
  });
}

/** Returns the runtime for the containers, or null if the containers use the Node.js that runs this process. */
async function localRuntime(job: Job, onProgress: (line: string) => void): Promise<LocalResource | null> {
  if (job.runtime === 'system' || (job.runtime === 'default' && frameworkOf(job.framework).trainingLibrary !== 'always')) {
    return null;
  }
  return builtTree(CONTAINER_LAYOUT.runtime, await runtimeFor(job, onProgress, { isLocal: true }));
}

async function localTensorBoard(job: Job, onProgress: (line: string) => void): Promise<LocalResource | null> {
  const built = await tensorBoardFor(job, onProgress);
  return built && builtTree(CONTAINER_LAYOUT.tensorboard, built);
}

/** Returns the unpacked Python environment, or null if the job uses the Python that is installed on this machine. */
async function localEnvironment(
  job: Job,
  root: string,
  { onProgress = () => {}, onStaging = () => {}, signal }: Pick<SubmissionOptions, 'onProgress' | 'onStaging' | 'signal'>,
): Promise<LocalResource | null> {
  const built = await environmentFor(job, onProgress);
  if (built === null) {
    return null;
  }
  return 'shipped' in built ? placeFile(root, built, onStaging, signal) : builtTree(CONTAINER_LAYOUT.environment, built);
}

function builtTree(name: string, { tree, size }: { readonly tree: string; readonly size: number }): LocalResource {
  return { name, uri: fileUri(tree), type: 'archive', visibility: 'private', size, timestamp: 0 };
}

/**
 * Allocates a job ID by creating the job's folder. Folder creation is atomic, so concurrent submissions get different IDs.
 */
async function claimId(root: string): Promise<{ applicationId: string; submittedAt: number }> {
  await makeFolders(join(root, 'jobs'), 0o700).catch((error: unknown) => {
    throw localFailure(root, error);
  });
  const submittedAt = Date.now();
  for (let number = 1; ; number++) {
    const applicationId = `local_${submittedAt}_${String(number).padStart(4, '0')}`;
    try {
      await mkdir(join(root, 'jobs', applicationId), { mode: 0o700 });
      return { applicationId, submittedAt };
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) {
        throw localFailure(root, error);
      }
    }
  }
}

/** Removes the container folders of old jobs that have ended. Fails if a process of such a job is still writing logs. */
async function pruneJobs(root: string, current: string): Promise<void> {
  const storage = new FileStorage();
  const jobs = (await readdir(join(root, 'jobs'))).filter((name) => isLocalId(name) && name !== current).sort();
  for (const old of jobs.slice(0, Math.max(0, jobs.length - JOBS_KEPT))) {
    const { job, history } = localPaths(root, old);
    if ((await stat(join(history, 'final.json')).catch(() => null)) !== null) {
      await storage.remove(fileUri(job));
    }
  }
}
