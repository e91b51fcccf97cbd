import { type ChildProcess, spawn } from 'node:child_process';
import { mkdir, open, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { messageOf, TonyError } from '../conf/errors.ts';
import { CONTAINER_LAYOUT, type Job, type Resource } from '../conf/job.ts';
import { encodeCredentials } from '../hadoop/credentials.ts';
import { fileUri } from '../storage/uri.ts';
import { bundlesFolder, MASTER_NODE_FLAGS } from './bundles.ts';
import { freezeJob, hasScheme } from './freeze-job.ts';
import { createJobSecrets } from './job-secrets.ts';
import { placeFolder } from './local-folder.ts';
import { isLocalId, localPaths } from './local-layout.ts';
import { hashFolder } from './source-archive.ts';
import { listData, listFolder, listSource } from './source-folder.ts';
import type { StagingEvent } from './staging.ts';
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

export interface LocalSubmission {
  readonly applicationId: string;
  readonly master: ChildProcess;
}

/** Starts a job on this machine: the very ApplicationMaster and executors that run on YARN, as processes. */
export async function submitLocal(job: Job, options: LocalSubmitOptions): Promise<LocalSubmission> {
  const { root, user, detach, environment = process.env } = options;
  refuseHdfs(job);
  const data: Record<string, string> = {};
  for (const [name, place] of Object.entries(job.data)) {
    if (hasScheme(place)) data[name] = place;
    else {
      await listData(place, name);
      data[name] = fileUri(place);
    }
  }
  const bundles = await hashFolder(await listFolder(await bundlesFolder(), 'folder of built programs'));
  const source = job.source && (await hashFolder(await listSource(job.source.path, job.source.exclude)));
  const resources: Resource[] = [];
  if (source !== null) resources.push(await placeFolder(root, CONTAINER_LAYOUT.source, source, options.onEvent));
  resources.push(await placeFolder(root, CONTAINER_LAYOUT.bundles, bundles, options.onEvent));
  const runtime = await untilAborted(localRuntime(job, options.onProgress), options.signal);
  if (runtime !== null) resources.push(runtime);

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
      cluster: { kind: 'local', directory: paths.containers },
    });
    const work = paths.work(paths.masterContainer);
    const logs = paths.logs(paths.masterContainer);
    await mkdir(work, { recursive: true, mode: 0o700 });
    await mkdir(logs, { recursive: true, mode: 0o700 });
    await writeFile(join(paths.job, 'job.json'), JSON.stringify(frozen), { mode: 0o600 });
    const credentials = join(work, 'credentials');
    await writeFile(credentials, encodeCredentials({ tokens: [], secrets: createJobSecrets(submittedAt) }), { mode: 0o600 });
    await symlink(join(paths.job, 'job.json'), join(work, CONTAINER_LAYOUT.job));
    for (const resource of resources) await symlink(fileURLToPath(resource.uri), join(work, resource.name));
    const log = await open(join(logs, 'tony.log'), 'a', 0o600);
    const errors = await open(join(logs, 'stderr'), 'a', 0o600);
    try {
      const node = runtime === null ? process.execPath : join(CONTAINER_LAYOUT.runtime, 'bin', 'node');
      const words = [...MASTER_NODE_FLAGS, `${CONTAINER_LAYOUT.bundles}/application-master.mjs`];
      const master = spawn(node, detach ? words : [...words, '--end-with-stdin'], {
        cwd: work,
        // Its own session: a Ctrl-C in this terminal is for the client alone.
        detached: true,
        stdio: [detach ? 'ignore' : 'pipe', log.fd, errors.fd],
        env: masterEnvironment(environment, { user, containerId: paths.masterContainer, credentials, logs }),
      });
      await started(master);
      await writeFile(paths.masterPid, String(master.pid), { mode: 0o600 });
      if (detach) master.unref();
      // The pipe breaks when the ApplicationMaster goes; that is noticed by its exit.
      master.stdin?.on('error', () => undefined);
      await pruneJobs(root, applicationId);
      return { applicationId, master };
    } finally {
      await log.close();
      await errors.close();
    }
  } catch (error) {
    await rm(paths.job, { recursive: true, force: true });
    throw error;
  }
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
  if (job.runtime !== 'default') {
    throw new TonyError('JOB_INVALID', `runtime is ${job.runtime}, but a local job runs with \`default\` or \`system\`.`, {
      hint: 'Override it: --set runtime=default.',
    });
  }
  const { tree, size } = await ensureRuntime(onProgress);
  return { name: CONTAINER_LAYOUT.runtime, uri: fileUri(tree), type: 'archive', visibility: 'private', size, timestamp: 0 };
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

function masterEnvironment(
  environment: NodeJS.ProcessEnv,
  container: { user: string; containerId: string; credentials: string; logs: string },
): NodeJS.ProcessEnv {
  // Options for the client's own Node are not the job's.
  const { NODE_OPTIONS: _options, NODE_CHANNEL_FD: _channel, ...rest } = environment;
  return {
    ...rest,
    // `node` in a job's command is at least the Node of this process.
    PATH: [environment.PATH, dirname(process.execPath)].filter((part) => part).join(delimiter),
    USER: container.user,
    CONTAINER_ID: container.containerId,
    HADOOP_TOKEN_FILE_LOCATION: container.credentials,
    LOG_DIRS: container.logs,
    NM_HOST: '127.0.0.1',
  };
}

async function started(master: ChildProcess): Promise<void> {
  if (master.pid !== undefined) return;
  const error = await new Promise<Error>((resolve) => master.once('error', resolve));
  throw new TonyError('INTERNAL', `The ApplicationMaster cannot be started: ${messageOf(error)}.`, { cause: error });
}

async function pruneJobs(root: string, current: string): Promise<void> {
  const jobs = (await readdir(join(root, 'jobs'))).filter((name) => isLocalId(name) && name !== current).sort();
  for (const old of jobs.slice(0, Math.max(0, jobs.length - JOBS_KEPT))) {
    const { job, history } = localPaths(root, old);
    if ((await stat(join(history, 'final.json')).catch(() => null)) !== null) await rm(job, { recursive: true, force: true });
  }
}
