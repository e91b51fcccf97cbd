import type { IncomingMessage, ServerResponse } from 'node:http';
import { type ApiObject, apiObject, errorObject } from '../../conf/status/api-object.ts';
import type { JobInfo, ListedJob } from '../../conf/status/job-info.ts';
import { JOB_STATES, type JobState } from '../../conf/status/status.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import type { Logger } from '../../platform/log.ts';
import type { HistoryList } from '../../web/history-list.ts';
import { JobSite } from '../../web/job-site.ts';
import type { JobView } from '../../web/job-view.ts';
import { ASSETS } from '../../web/page/assets.ts';
import { PAGE_POLICY, pageShell } from '../../web/page/shell.ts';
import { answer, answerText } from '../../web/server/answer.ts';
import type { JobPages } from '../../web/server/server.ts';
import { isUserName } from '../records/history-place.ts';
import type { HistoryStore } from '../records/history-store.ts';
import type { JobPlace } from '../records/job-place.ts';
import type { HistoryAccess, Visitor } from './history-access.ts';
import { HistoryIndex, type HistoryJob } from './history-index.ts';
import { jobPath, storedJob } from './stored-job.ts';
import { StoredJobView } from './stored-job-view.ts';
import { PooledTensorBoard, type TensorBoardPool } from './tensorboard-pool.ts';

const JOB_ID = /^(?:application|local)_\w{1,100}$/;
/** Name that stands for the user who runs the server. Real user names are never empty. */
const OWNER = '';
const DEFAULT_JOBS = 200;
const MOST_JOBS = 1_000;
/** Limits for the number of jobs in memory and the total size of their files in bytes. */
const MOST_OPEN = 16;
const MOST_OPEN_BYTES = 48 << 20;
/** How long (ms) a job list is cached. */
const LIST_LIFE_MS = 2_000;
const MOST_LISTS = 50;

export interface HistoryServerOptions {
  readonly store: HistoryStore;
  readonly access: HistoryAccess;
  readonly tensorBoards: TensorBoardPool;
  /** See StoredJobView. */
  readonly anywhere: boolean;
  /** Requests the status of a running job. Set only for token access, which gives visitors the same rights as this process. */
  readonly live?: ((place: JobPlace) => Promise<JobInfo | null>) | undefined;
  readonly log: Logger;
}

interface OpenJob {
  readonly site: JobSite;
  readonly view: StoredJobView;
  readonly tensorBoard: PooledTensorBoard;
  usedAt: number;
}

/**
 * Serves job pages from job histories:
 *
 *   /                                job list
 *   /tony/api/v1/history                job list as JSON; parameters: ?user= ?state= ?name= ?limit=
 *   /jobs/<user>/<application id>/   pages of a job, as served by its ApplicationMaster
 */
export class HistoryServer implements JobPages {
  readonly #options: HistoryServerOptions;
  readonly #index: HistoryIndex;
  readonly #open = new Map<string, OpenJob>();
  readonly #lists = new Map<string, { readonly at: number; readonly list: Promise<HistoryList> }>();

  constructor(options: HistoryServerOptions) {
    this.#options = options;
    this.#index = new HistoryIndex(options.store);
  }

  expects(address: string): boolean {
    return this.#options.access.expects?.(address) ?? true;
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const visitor = await this.#options.access.admit(request, response);
    if (visitor === null) {
      return;
    }
    const target = request.url ?? '/';
    const job = /^\/jobs\/([^/?]+)\/([^/?]+)(\/[^?]*)?(\?.*)?$/.exec(target);
    if (job !== null) {
      return this.#job(request, response, visitor, job);
    }
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      return answerText(request, response, 405, 'This server answers only GET and HEAD requests.', { Allow: 'GET, HEAD' });
    }
    const [path = '/', query = ''] = target.split('?', 2);
    if (path === '/') {
      const body = pageShell({ base: 'tony/', page: 'history' });
      return answer(request, response, { type: 'text/html; charset=utf-8', body, headers: { 'Content-Security-Policy': PAGE_POLICY } });
    }
    if (path === '/tony/api/v1/history') {
      return this.#list(request, response, visitor, new URLSearchParams(query));
    }
    const asset = ASSETS.get(/^\/tony\/assets\/([\w.-]+)$/.exec(path)?.[1] ?? '');
    if (asset === undefined) {
      return answerText(request, response, 404, 'There is no such page.');
    }
    return answer(request, response, { ...asset, headers: { 'Cache-Control': 'public, max-age=31536000, immutable' } });
  }

  async prepare(place: JobPlace): Promise<void> {
    await this.#wake(this.#opened(place), OWNER);
  }

  close(): void {
    for (const job of this.#open.values()) {
      close(job);
    }
    this.#open.clear();
  }

  async #job(request: IncomingMessage, response: ServerResponse, visitor: Visitor, parts: RegExpExecArray): Promise<void> {
    const [, name = '', jobId = '', rest, query = ''] = parts;
    // Validate the ID before the redirect, because an ID with a colon could turn the URL into a link to another site.
    if (!JOB_ID.test(jobId)) {
      return answerText(request, response, 404, 'This is not a job ID.');
    }
    // Redirect to the URL with a trailing slash, because the pages contain relative links.
    if (rest === undefined) {
      return answerText(request, response, 308, 'The path of a job ends with a slash.', { Location: `./${jobId}/${query}` });
    }
    const user = decoded(name);
    const { access, store } = this.#options;
    const place = user === null ? null : await store.place(user, jobId);
    if (place === null || !(await access.mayView(visitor, place))) {
      // Send the same response whether or not the job exists, so that visitors without access cannot tell whether it does.
      const who = visitor.user === null ? '' : ` that ${visitor.user} may view: ask its owner to add you to acls.view`;
      return answerText(request, response, visitor.user === null ? 404 : 403, `There is no history of ${jobId.slice(0, 60)}${who}.`);
    }
    const job = this.#opened(place);
    if (!rest.startsWith('/tony/')) {
      await this.#wake(job, visitor.user ?? OWNER);
    }
    await job.site.handle(request, response, `${rest}${query}`);
    // A job's size is known only after its files have been read.
    this.#closeOthers(job);
  }

  #closeOthers(kept: OpenJob): void {
    const others = [...this.#open].filter(([, job]) => job !== kept).sort(([, a], [, b]) => a.usedAt - b.usedAt);
    let bytes = others.reduce((sum, [, { view }]) => sum + view.bytes, kept.view.bytes);
    for (const [folder, job] of others) {
      if (bytes <= MOST_OPEN_BYTES) {
        return;
      }
      bytes -= job.view.bytes;
      close(job);
      this.#open.delete(folder);
    }
  }

  #opened(place: JobPlace): OpenJob {
    const known = this.#open.get(place.folder);
    if (known !== undefined) {
      known.usedAt = performance.now();
      return known;
    }
    while (this.#open.size >= MOST_OPEN) {
      const [oldest] = [...this.#open].sort(([, a], [, b]) => a.usedAt - b.usedAt);
      if (oldest === undefined) {
        break;
      }
      close(oldest[1]);
      this.#open.delete(oldest[0]);
    }
    const { store, anywhere, live, log } = this.#options;
    const view = new StoredJobView({ store, place, anywhere, log, live: live && (() => live(place)) });
    const tensorBoard = new PooledTensorBoard(this.#options.tensorBoards);
    const site = new JobSite({ view: withTensorBoard(view, tensorBoard), tensorboard: tensorBoard, access: { kind: 'authorised' }, log });
    const job: OpenJob = { site, view, tensorBoard, usedAt: performance.now() };
    this.#open.set(place.folder, job);
    return job;
  }

  async #wake({ view, tensorBoard }: OpenJob, visitor: string): Promise<void> {
    try {
      const dir = await view.summaryDir();
      if (dir === null) {
        return tensorBoard.refuse(view.whyUnreadable);
      }
      if (!tensorBoard.isAwake && (await this.#options.store.storage.list(dir)).length === 0) {
        return tensorBoard.refuse('The job has written no summaries.');
      }
      tensorBoard.wake(dir, visitor);
    } catch (error) {
      tensorBoard.refuse(messageOf(error));
    }
  }

  async #list(request: IncomingMessage, response: ServerResponse, visitor: Visitor, query: URLSearchParams): Promise<void> {
    try {
      answerJson(request, response, 200, apiObject('JobList', await this.#listed(visitor, query)));
    } catch (error) {
      if (!(error instanceof TonyError)) {
        throw error;
      }
      answerJson(request, response, error.code === 'USAGE' ? 400 : 503, errorObject(error));
    }
  }

  #listed(visitor: Visitor, query: URLSearchParams): Promise<HistoryList> {
    const limit = query.get('limit') ?? String(DEFAULT_JOBS);
    const state = query.get('state') ?? undefined;
    if (!/^\d{1,6}$/.test(limit)) {
      throw new TonyError('USAGE', '`limit` must be a whole number.');
    }
    if (state !== undefined && !JOB_STATES.includes(state as JobState)) {
      throw new TonyError('USAGE', `\`state\` must be one of ${JOB_STATES.join(', ')}.`);
    }
    const user = query.get('user');
    if (user !== null && !isUserName(user)) {
      throw new TonyError('USAGE', '`user` must be a user name.');
    }
    const wanted = {
      user,
      state: state as JobState | undefined,
      name: query.get('name')?.slice(0, 200) ?? undefined,
      limit: Math.min(MOST_JOBS, Number(limit)),
    };
    const key = JSON.stringify([visitor.user, wanted]);
    const known = this.#lists.get(key);
    if (known !== undefined && performance.now() - known.at < LIST_LIFE_MS) {
      return known.list;
    }
    const { access } = this.#options;
    const list = this.#index
      .list({ ...wanted, mayView: (place) => access.mayView(visitor, place) })
      .then(({ jobs, message }) => ({ jobs: jobs.map(shownJob), message }));
    list.catch(() => this.#lists.delete(key));
    this.#lists.delete(key);
    this.#lists.set(key, { at: performance.now(), list });
    for (const [oldest, { at }] of this.#lists) {
      if (this.#lists.size <= MOST_LISTS && performance.now() - at < LIST_LIFE_MS) {
        break;
      }
      this.#lists.delete(oldest);
    }
    return list;
  }
}

function close({ site, view }: OpenJob): void {
  site.close();
  view.close();
}

/** Returns a view that shows this server's TensorBoard. The job's own TensorBoard has ended with the job. */
function withTensorBoard(view: StoredJobView, tensorBoard: PooledTensorBoard): JobView {
  let shown: { readonly of: JobInfo; readonly status: JobInfo } | null = null;
  return {
    status: async () => {
      const of = await view.status();
      const tensorboard = tensorBoard.status();
      // Return the same object until a value changes, because JobSite serialises each object only once.
      const same =
        shown?.of === of &&
        shown.status.tensorboard.state === tensorboard.state &&
        shown.status.tensorboard.message === tensorboard.message;
      if (shown === null || !same) {
        shown = { of, status: { ...of, tensorboard } };
      }
      return shown.status;
    },
    configuration: () => view.configuration(),
    events: (after) => view.events(after),
    usage: (after) => view.usage(after),
    scalars: () => view.scalars(),
    log: (task, file, tail) => view.log(task, file, tail),
  };
}

function answerJson(request: IncomingMessage, response: ServerResponse, status: number, value: ApiObject): void {
  answer(request, response, { status, type: 'application/json; charset=utf-8', body: JSON.stringify(value) });
}

/** Returns an entry of the list with the address of the job's page. */
function shownJob(job: HistoryJob): ListedJob {
  const { user, jobId } = job.place;
  return { ...storedJob(job), urls: { pages: `${jobPath(user, jobId)}tony/`, tracking: null } };
}

function decoded(part: string): string | null {
  try {
    return decodeURIComponent(part);
  } catch {
    return null;
  }
}
