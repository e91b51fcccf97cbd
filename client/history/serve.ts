import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { isReported, type JobInfo } from '../../conf/status/job-info.ts';
import { shortUserName } from '../../hadoop/configuration/login/login-of.ts';
import { findTicket } from '../../hadoop/security/tickets.ts';
import { bracketed } from '../../platform/address.ts';
import { pickOptions } from '../../platform/check-options.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import { WeightedCache } from '../../platform/weighted-cache.ts';
import { isAddressedHere } from '../../web/server/access.ts';
import { answerText } from '../../web/server/answer.ts';
import { HostAddresses } from '../../web/server/host-addresses.ts';
import { type JobPages, WebServer } from '../../web/server/server.ts';
import { jobViewers } from '../../web/server/view-acl.ts';
import { type ClusterOptions, openCluster, readConfiguration } from '../cluster/cluster.ts';
import { CONNECT_OPTIONS, type ConnectOptions, connectJob } from '../connections/connect-job.ts';
import type { HistoryStore } from '../records/history-store.ts';
import type { JobPlace } from '../records/job-place.ts';
import { readFrozen } from '../records/job-record.ts';
import { type HistoryAccess, SimpleAccess, TokenAccess, type Visitor } from './history-access.ts';
import { HistoryServer } from './history-server.ts';
import { openHistoryStore, STORE_OPTIONS, type StoreOptions } from './open-store.ts';
import { jobPath } from './stored-job.ts';
import { TensorBoardPool, type TensorBoardPoolOptions } from './tensorboard-pool.ts';

/** A user name, or a Kerberos principal with one or two components and an optional realm. */
const USER = /^[\w][\w.-]{0,127}\$?(?:\/[\w.-]{1,253})?(?:@[\w.-]{1,253})?$/;

/**
 * Grants access to users whom a reverse proxy has authenticated, for example by SPNEGO. The proxy sends the user name in a header, which
 * the server accepts only from the proxy's addresses. Each job's view ACL controls access to its history.
 */
export class ProxyAccess implements HistoryAccess {
  readonly #proxies: HostAddresses;
  readonly #header: string;
  readonly #userOf: (name: string) => Promise<string>;
  readonly #viewers: (place: JobPlace) => Promise<(user: string | null) => boolean>;
  readonly #hosts: readonly string[];

  /**
   * @param options.header name of the header, in lower case
   * @param options.userOf returns the short user name for a principal
   * @param options.hosts additional host names of the server, in lower case
   */
  constructor(options: {
    readonly proxies: readonly string[];
    readonly header: string;
    readonly userOf: (name: string) => Promise<string>;
    readonly viewers: (place: JobPlace) => Promise<(user: string | null) => boolean>;
    readonly hosts: readonly string[];
  }) {
    this.#proxies = new HostAddresses(options.proxies);
    this.#header = options.header;
    this.#userOf = options.userOf;
    this.#viewers = options.viewers;
    this.#hosts = options.hosts;
  }

  async admit(request: IncomingMessage, response: ServerResponse): Promise<Visitor | null> {
    const refuse = (message: string): null => {
      answerText(request, response, 403, message);
      return null;
    };
    if (!(await this.#proxies.include(request.socket.remoteAddress ?? ''))) {
      return refuse("This server answers only requests from its proxy: open the proxy's address.");
    }
    if (!isAddressedHere(request, this.#hosts)) {
      return refuse(
        'This server does not accept requests for this host name. To allow it, set history.url in tony-site.yaml to the address that users open.',
      );
    }
    // If the header occurs more than once, the proxy has not removed the header that the client sent.
    const [name = '', ...others] = request.headersDistinct[this.#header] ?? [];
    if (others.length > 0) {
      return refuse(`The proxy sent several ${this.#header} headers. It must replace the header that the client sends.`);
    }
    if (!USER.test(name)) {
      return refuse(name === '' ? `The proxy sent no user name in the header ${this.#header}.` : 'The proxy sent an invalid user name.');
    }
    try {
      return { user: await this.#userOf(name) };
    } catch (error) {
      return refuse(messageOf(error));
    }
  }

  expects(address: string): boolean {
    return this.#proxies.mayInclude(address);
  }

  async mayView({ user }: Visitor, place: JobPlace): Promise<boolean> {
    return (await this.#viewers(place))(user);
  }
}

/** Disk space limit (bytes) for each TensorBoard on a multi-user server. */
const SHARED_COPY_BYTES = 4 * 1024 ** 3;
/** Size of the view ACL cache (characters). Entries never expire, because job.json never changes. */
const REMEMBERED_CHARACTERS = 8 << 20;
/** Estimated overhead per cache entry (characters). */
const LIST_CHARACTERS = 32;

export interface ServeOptions extends ClusterOptions {
  readonly local: boolean;
  readonly localRoot?: string | undefined;
  /**
   * How visitors are authenticated. With `token`, they need the printed URL and have the same rights as this process. With `simple`, they
   * state their user name. With `proxy`, a reverse proxy authenticates them. With `simple` and `proxy`, each job's view ACL controls access
   * to its history.
   */
  readonly auth: 'token' | 'simple' | 'proxy';
  /** Host names or addresses of the reverse proxy. Required with `proxy`, and invalid otherwise. */
  readonly trustedProxy?: readonly string[] | undefined;
  /** Header in which the reverse proxy sends the user name. Default: X-Remote-User. */
  readonly userHeader?: string | undefined;
  readonly listen: string;
  /** Port to listen on. The value 0 selects a free port. */
  readonly port: number;
  readonly log: Logger;
  /** Receives progress messages while TensorBoard is downloaded for the first time. */
  readonly onProgress: (line: string) => void;
}

export interface RunningHistoryServer {
  /** URL of the job list. With `--auth token`, the URL contains the token. */
  readonly url: string;
  jobUrl(place: JobPlace): string;
  prepare(place: JobPlace): Promise<void>;
  readonly store: HistoryStore;
  close(): Promise<void>;
}

/**
 * Starts a server that reads job histories and serves the jobs' pages.
 * @throws TonyError USAGE, LISTEN_FAILED, and the errors that openHistoryStore throws
 */
export async function serveHistory(options: ServeOptions): Promise<RunningHistoryServer> {
  const { auth, listen, port, log } = options;
  await checkAccessOptions(options);
  const store = await openHistoryStore(pickOptions<StoreOptions>(options, STORE_OPTIONS));
  const closers: (() => Promise<void> | void)[] = [() => store.close()];
  const close = async (): Promise<void> => {
    for (const each of closers.splice(0).reverse()) {
      await each();
    }
  };
  try {
    const folder = await mkdtemp(join(tmpdir(), 'tony-ts-history-'));
    closers.push(() => rm(folder, { recursive: true, force: true }));
    const tensorBoards = new TensorBoardPool({ start: tensorBoardStarter(options, store), folder, log });
    closers.push(() => tensorBoards.close());
    const token = randomBytes(24).toString('base64url');
    const hosts = [hostname().toLowerCase(), listen.toLowerCase()];
    const access = auth === 'token' ? new TokenAccess(token, hosts) : await sharedAccess(options, store, hosts, closers);
    const anywhere = auth === 'token';
    const live = anywhere ? (place: JobPlace) => askJob(place, options) : undefined;
    const history = new HistoryServer({ store, access, tensorBoards, anywhere, live, log });
    closers.push(() => history.close());
    const web = await listening({ address: listen, port, site: history, log });
    closers.push(() => web.close());
    const name = listen === '0.0.0.0' || listen === '::' ? hostname() : bracketed(listen);
    const base = `http://${name}:${web.port}/`;
    const query = auth === 'token' ? `?token=${token}` : '';
    return {
      url: `${base}${query}`,
      jobUrl: ({ user, jobId }) => `${base}${jobPath(user, jobId)}${query}`,
      prepare: (place) => history.prepare(place),
      store,
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Checks the access options. Called before `openCluster`, which may require a Kerberos ticket. */
async function checkAccessOptions(options: ServeOptions): Promise<void> {
  const { auth, local, trustedProxy = [], userHeader } = options;
  if (auth !== 'token' && local) {
    throw new TonyError('USAGE', `--auth ${auth} works only with the histories of a cluster.`, {
      hint: 'Remove either --local or --auth.',
    });
  }
  if (auth === 'simple' && (await readConfiguration(options)).secure) {
    throw new TonyError('USAGE', '--auth simple does not verify user names, but the cluster requires Kerberos.', {
      hint: 'Use --auth proxy with a reverse proxy that authenticates users, or --auth token.',
    });
  }
  if (auth === 'proxy' && trustedProxy.length === 0) {
    throw new TonyError('USAGE', "--auth proxy requires the proxy's address.", { hint: 'Add --trusted-proxy HOST.' });
  }
  if (auth !== 'proxy' && (trustedProxy.length > 0 || userHeader !== undefined)) {
    throw new TonyError('USAGE', '--trusted-proxy and --user-header require --auth proxy.', { hint: 'Add --auth proxy.' });
  }
  if (userHeader !== undefined && !/^[\w-]{1,100}$/.test(userHeader)) {
    throw new TonyError('USAGE', `"${userHeader}" is not a valid header name.`, { hint: 'Use a name such as X-Remote-User.' });
  }
}

/** Returns a function that starts TensorBoard on this machine, and downloads TensorBoard if necessary. */
function tensorBoardStarter({ auth, log, onProgress }: ServeOptions, { storage }: HistoryStore): TensorBoardPoolOptions['start'] {
  return async ({ summaryDir, folder }) => {
    const { ensureTensorBoard } = await import('../python/ensure-tensorboard.ts');
    const { TensorBoard } = await import('../../web/tensorboard/tensorboard.ts');
    const { tree } = await ensureTensorBoard(onProgress);
    const limit = auth === 'token' ? {} : { copyBytes: SHARED_COPY_BYTES };
    return TensorBoard.start({ packages: tree, summaryDir, storage, folder, log, ...limit });
  };
}

async function listening(options: { address: string; port: number; site: JobPages; log: Logger }): Promise<WebServer> {
  try {
    return await WebServer.open(options);
  } catch (error) {
    throw new TonyError('LISTEN_FAILED', `Cannot listen on ${options.address} port ${options.port}: ${messageOf(error)}.`, {
      cause: error,
    });
  }
}

/**
 * Creates the access check for a multi-user server. If a job's job.json is unreadable, only the job's owner and administrators may view the
 * job.
 */
async function sharedAccess(
  options: ServeOptions,
  store: HistoryStore,
  hosts: readonly string[],
  closers: (() => Promise<void> | void)[],
): Promise<HistoryAccess> {
  const { configuration, site, environment, close } = await openCluster(options);
  closers.push(close);
  const { url } = (await site()).history;
  const known = new WeightedCache<string, readonly string[]>(REMEMBERED_CHARACTERS);
  const viewers = async (place: JobPlace): Promise<(user: string | null) => boolean> => {
    let view = known.get(place.folder);
    if (view === undefined) {
      const frozen = await readFrozen(store.storage, place);
      view = frozen?.job.acls.view.users ?? [];
      const weight = view.reduce((sum, { length }) => sum + length + LIST_CHARACTERS, place.folder.length + LIST_CHARACTERS);
      if (frozen !== null) {
        known.set(place.folder, view, weight);
      }
    }
    return jobViewers(configuration, { user: place.user, view });
  };
  // Remove the brackets that a URL puts around an IPv6 address.
  const named = url === null ? [] : [new URL(url).hostname.toLowerCase().replace(/^\[(.*)\]$/, '$1')];
  const shared = { viewers, hosts: [...hosts, ...named] };
  if (options.auth === 'simple') {
    return new SimpleAccess(shared);
  }
  const { trustedProxy = [], userHeader = 'X-Remote-User' } = options;
  // Without Kerberos, the server has no principal, so the proxy's principals must be in the default realm of krb5.conf.
  const own = configuration.secure ? (await findTicket(environment)).principal : '';
  const userOf = (name: string): Promise<string> => shortUserName(name, configuration, environment, own);
  return new ProxyAccess({ ...shared, proxies: trustedProxy, header: userHeader.toLowerCase(), userOf });
}

/** Requests the status of a running job. Returns null if the job does not respond. */
async function askJob({ jobId }: JobPlace, options: ServeOptions): Promise<JobInfo | null> {
  const connection = await connectJob(jobId, pickOptions<ConnectOptions>(options, CONNECT_OPTIONS));
  try {
    const job = await connection.observe();
    return isReported(job) ? job : null;
  } catch (error) {
    options.log.info({ application: jobId, error: messageOf(error) }, 'the job does not answer');
    return null;
  } finally {
    connection.close();
  }
}
