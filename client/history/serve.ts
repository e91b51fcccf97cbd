import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { messageOf, TonyError } from '../../conf/errors.ts';
import type { Logger } from '../../conf/log.ts';
import type { JobStatus } from '../../conf/status.ts';
import { type Site, WebServer } from '../../web/server.ts';
import { jobViewers } from '../../web/view-acl.ts';
import { type ClusterOptions, openCluster } from '../cluster.ts';
import { connectJob } from '../connect-job.ts';
import { type HistoryAccess, SimpleAccess, TokenAccess } from './history-access.ts';
import { HistoryServer } from './history-server.ts';
import type { HistoryStore, JobPlace } from './history-store.ts';
import { jobPath } from './history-summary.ts';
import { readFrozen } from './job-record.ts';
import { localTensorBoard } from './local-tensorboard.ts';
import { openHistoryStore } from './open-store.ts';
import { TensorBoardPool } from './tensorboard-pool.ts';

/** job.json does not change once it is there. */
const REMEMBERED = 5_000;

export interface ServeOptions extends ClusterOptions {
  readonly local: boolean;
  readonly localRoot?: string | undefined;
  /** `token`: for whoever has the printed URL, with the rights of this process. `simple`: for everybody, as each job's view ACL says. */
  readonly auth: 'token' | 'simple';
  /** Address to listen on. */
  readonly listen: string;
  /** 0: any that is free. */
  readonly port: number;
  readonly log: Logger;
  /** Told what is prepared for the first TensorBoard. */
  readonly onProgress: (line: string) => void;
}

export interface RunningHistoryServer {
  /** Of the list of jobs, with the token where one is needed. */
  readonly url: string;
  /** Of one job's site. */
  jobUrl(place: JobPlace): string;
  /** Starts a job's TensorBoard before somebody opens it. */
  prepare(place: JobPlace): Promise<void>;
  readonly store: HistoryStore;
  close(): Promise<void>;
}

/**
 * Serves the pages of jobs from their histories until it is closed.
 *
 * @throws TonyError USAGE, LISTEN_FAILED, or as openHistoryStore
 */
export async function serveHistory(options: ServeOptions): Promise<RunningHistoryServer> {
  const { auth, listen, port, log, local } = options;
  if (auth === 'simple' && local) {
    throw new TonyError('USAGE', '--auth simple is for the histories of a cluster.', { hint: 'Leave out --local, or --auth.' });
  }
  const store = await openHistoryStore(options);
  const closers: (() => Promise<void> | void)[] = [() => store.close()];
  const close = async (): Promise<void> => {
    for (const each of closers.splice(0).reverse()) await each();
  };
  try {
    const folder = await mkdtemp(join(tmpdir(), 'tony-ts-history-'));
    closers.push(() => rm(folder, { recursive: true, force: true }));
    const start = localTensorBoard({ storage: store.storage, log, onProgress: options.onProgress });
    const tensorBoards = new TensorBoardPool({ start, folder, log });
    closers.push(() => tensorBoards.close());
    const token = randomBytes(24).toString('base64url');
    const access =
      auth === 'token'
        ? new TokenAccess(token, [hostname().toLowerCase(), listen.toLowerCase()])
        : await simpleAccess(options, store, closers);
    const anywhere = auth === 'token';
    const live = anywhere ? (place: JobPlace) => askJob(place, options) : undefined;
    const history = new HistoryServer({ store, access, tensorBoards, anywhere, live, log });
    closers.push(() => history.close());
    const web = await listening({ address: listen, port, site: history, log });
    closers.push(() => web.close());
    const name = listen === '0.0.0.0' || listen === '::' ? hostname() : listen.includes(':') ? `[${listen}]` : listen;
    const base = `http://${name}:${web.port}/`;
    const query = auth === 'token' ? `?token=${token}` : '';
    return {
      url: `${base}${query}`,
      jobUrl: ({ user, applicationId }) => `${base}${jobPath(user, applicationId)}${query}`,
      prepare: (place) => history.prepare(place),
      store,
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

async function listening(options: { address: string; port: number; site: Site; log: Logger }): Promise<WebServer> {
  try {
    return await WebServer.open(options);
  } catch (error) {
    throw new TonyError('LISTEN_FAILED', `Cannot listen on ${options.address} port ${options.port}: ${messageOf(error)}.`, {
      cause: error,
    });
  }
}

/** Each job's view ACL stands in its job.json; one that cannot be read is for its owner and for administrators. */
async function simpleAccess(options: ServeOptions, store: HistoryStore, closers: (() => Promise<void> | void)[]): Promise<HistoryAccess> {
  const { configuration, close } = await openCluster(options);
  closers.push(close);
  const known = new Map<string, readonly string[]>();
  return new SimpleAccess(async (place) => {
    let view = known.get(place.folder);
    if (view === undefined) {
      const frozen = await readFrozen(store.storage, place);
      view = frozen?.job.acls.view.users ?? [];
      for (const [oldest] of known) if (known.size >= REMEMBERED) known.delete(oldest);
      if (frozen !== null) known.set(place.folder, view);
    }
    return jobViewers(configuration, { user: place.user, view });
  });
}

/** What a job that runs says of itself; null when it does not answer. */
async function askJob({ applicationId }: JobPlace, options: ServeOptions): Promise<JobStatus | null> {
  const connection = await connectJob(applicationId, options);
  try {
    return (await connection.observe()).status;
  } catch (error) {
    options.log.info({ application: applicationId, error: messageOf(error) }, 'the job does not answer');
    return null;
  } finally {
    connection.close();
  }
}
