import { type ChildProcess, spawn } from 'node:child_process';
import { mkdir, open, rename, symlink, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { messageOf, TonyError } from '../conf/errors.ts';
import { CONTAINER_LAYOUT, type Resource } from '../conf/job.ts';
import type { Secret } from '../conf/secret.ts';
import { encodeCredentials } from '../hadoop/credentials.ts';
import { MASTER_NODE_FLAGS } from './bundles.ts';
import { LOCAL_ATTEMPTS, type LocalPaths } from './local-layout.ts';

export interface LocalMaster {
  readonly paths: LocalPaths;
  /** The Node that runs it, as seen from its working directory. */
  readonly node: string;
  readonly resources: readonly Resource[];
  readonly user: string;
  /** The job outlives this process. */
  readonly detach: boolean;
  readonly environment: NodeJS.ProcessEnv;
  readonly secrets: ReadonlyMap<string, Secret>;
}

/**
 * Starts the ApplicationMaster of a local job, with what a NodeManager would give it. Should it be killed while this process follows
 * the job, another attempt goes on with what it left.
 */
export async function startMaster(master: LocalMaster): Promise<void> {
  const { paths } = master;
  const credentials = join(paths.work(paths.masterContainer(1)), 'credentials');
  await mkdir(dirname(credentials), { recursive: true, mode: 0o700 });
  await writeFile(credentials, encodeCredentials({ tokens: [], secrets: master.secrets }), { mode: 0o600 });
  await startAttempt(master, credentials, 1);
}

async function startAttempt(master: LocalMaster, credentials: string, attempt: number): Promise<void> {
  const { paths, detach, node } = master;
  const containerId = paths.masterContainer(attempt);
  const work = paths.work(containerId);
  const logs = paths.logs(containerId);
  await mkdir(work, { recursive: true, mode: 0o700 });
  await mkdir(logs, { recursive: true, mode: 0o700 });
  await symlink(join(paths.job, 'job.json'), join(work, CONTAINER_LAYOUT.job));
  for (const resource of master.resources) await symlink(fileURLToPath(resource.uri), join(work, resource.name));
  const log = await open(join(logs, 'tony.log'), 'a', 0o600);
  const errors = await open(join(logs, 'stderr'), 'a', 0o600);
  try {
    const words = [...MASTER_NODE_FLAGS, `${CONTAINER_LAYOUT.bundles}/application-master.mjs`];
    const child = spawn(node, detach ? words : [...words, '--end-with-stdin'], {
      cwd: work,
      // Its own session: a Ctrl-C in this terminal is for the client alone.
      detached: true,
      stdio: [detach ? 'ignore' : 'pipe', log.fd, errors.fd],
      env: masterEnvironment(master, { containerId, credentials, logs }),
    });
    await started(child);
    const isLast = attempt >= LOCAL_ATTEMPTS;
    const told = tellPids(paths, isLast ? [child.pid] : [child.pid, process.pid]);
    // Before anything is waited for: it may end at once.
    child.once('exit', (_code, signal) => {
      const next = async () => (signal === null || isLast ? tellPids(paths, [child.pid]) : startAttempt(master, credentials, attempt + 1));
      // What cannot be started, or told, is missed by who looks at the job.
      told.then(next).catch(() => undefined);
    });
    // The pipe breaks when the ApplicationMaster goes; that is noticed by its exit.
    child.stdin?.on('error', () => undefined);
    if (detach) child.unref();
    await told;
  } finally {
    await log.close();
    await errors.close();
  }
}

/** Others may read it at any moment: it is there whole. */
async function tellPids({ masterPid }: LocalPaths, pids: readonly (number | undefined)[]): Promise<void> {
  const whole = `${masterPid}.new`;
  await writeFile(whole, pids.join(' '), { mode: 0o600 });
  await rename(whole, masterPid);
}

function masterEnvironment(
  { environment, user }: LocalMaster,
  container: { containerId: string; credentials: string; logs: string },
): NodeJS.ProcessEnv {
  // Options for the client's own Node are not the job's.
  const { NODE_OPTIONS: _options, NODE_CHANNEL_FD: _channel, ...rest } = environment;
  return {
    ...rest,
    // `node` in a job's command is at least the Node of this process.
    PATH: [environment.PATH, dirname(process.execPath)].filter((part) => part).join(delimiter),
    USER: user,
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
