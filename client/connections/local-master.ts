import { type ChildProcess, spawn } from 'node:child_process';
import { mkdir, open, rename, symlink, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CONTAINER_LAYOUT } from '../../conf/job.ts';
import { encodeCredentials } from '../../hadoop/rpc/credentials.ts';
import type { LocalResource } from '../../hadoop/yarn/local-resource.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { Secret } from '../../platform/secret.ts';
import { LOCAL_ATTEMPTS, type LocalPaths } from '../files/local-layout.ts';
import { MASTER_NODE_FLAGS } from '../job/bundles.ts';

export interface LocalMaster {
  readonly paths: LocalPaths;
  /** Path of the Node.js executable, relative to the ApplicationMaster's working directory. */
  readonly node: string;
  readonly resources: readonly LocalResource[];
  readonly user: string;
  /** Whether the job continues when this process exits. */
  readonly detach: boolean;
  readonly environment: NodeJS.ProcessEnv;
  readonly secrets: ReadonlyMap<string, Secret>;
}

/**
 * Starts a local job's ApplicationMaster with the environment variables that a NodeManager would set. If a signal kills the
 * ApplicationMaster, this process starts another attempt, which resumes from the stored state.
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
  for (const resource of master.resources) {
    await symlink(fileURLToPath(resource.uri), join(work, resource.name));
  }
  const log = await open(join(logs, 'tony.log'), 'a', 0o600);
  const errors = await open(join(logs, 'stderr'), 'a', 0o600);
  try {
    const words = [...MASTER_NODE_FLAGS, `${CONTAINER_LAYOUT.bundles}/application-master.mjs`];
    const child = spawn(node, detach ? words : [...words, '--end-with-stdin'], {
      cwd: work,
      // Start a new session, so that Ctrl-C in the terminal signals only the client.
      detached: true,
      stdio: [detach ? 'ignore' : 'pipe', log.fd, errors.fd],
      env: masterEnvironment(master, { containerId, credentials, logs }),
    });
    await started(child);
    const isLast = attempt >= LOCAL_ATTEMPTS;
    const written = writePids(paths, isLast ? [child.pid] : [child.pid, process.pid]);
    // Add the listener before the next await. Otherwise, it could miss the `exit` event of an ApplicationMaster that exits immediately.
    child.once('exit', (_code, signal) => {
      const next = async () => (signal === null || isLast ? writePids(paths, [child.pid]) : startAttempt(master, credentials, attempt + 1));
      // Ignore an error here. LocalJob detects that no ApplicationMaster is running.
      written.then(next).catch(() => undefined);
    });
    // Ignore a broken pipe, because the `exit` event follows.
    child.stdin?.on('error', () => undefined);
    if (detach) {
      child.unref();
    }
    await written;
  } finally {
    await log.close();
    await errors.close();
  }
}

/** Writes the file atomically, because other processes may read it at any time. */
async function writePids({ masterPid }: LocalPaths, pids: readonly (number | undefined)[]): Promise<void> {
  const whole = `${masterPid}.new`;
  await writeFile(whole, pids.join(' '), { mode: 0o600 });
  await rename(whole, masterPid);
}

function masterEnvironment(
  { environment, user }: LocalMaster,
  container: { containerId: string; credentials: string; logs: string },
): NodeJS.ProcessEnv {
  // The client's NODE_OPTIONS must not affect the ApplicationMaster.
  const { NODE_OPTIONS: _options, NODE_CHANNEL_FD: _channel, ...rest } = environment;
  return {
    ...rest,
    // The job's programs may call `node`, which the client's PATH may not contain.
    PATH: [environment.PATH, dirname(process.execPath)].filter((part) => part).join(delimiter),
    USER: user,
    CONTAINER_ID: container.containerId,
    HADOOP_TOKEN_FILE_LOCATION: container.credentials,
    LOG_DIRS: container.logs,
    NM_HOST: '127.0.0.1',
  };
}

async function started(master: ChildProcess): Promise<void> {
  if (master.pid !== undefined) {
    return;
  }
  const error = await new Promise<Error>((resolve) => master.once('error', resolve));
  throw new TonyError('INTERNAL', `Cannot start the ApplicationMaster: ${messageOf(error)}.`, { cause: error });
}
