import { randomBytes } from 'node:crypto';
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { messageOf } from '../platform/errors.ts';
import type { Logger } from '../platform/log.ts';
import { Api } from './api.ts';
import type { JobView } from './job-view.ts';
import { ASSETS, assetName } from './page/assets.ts';
import { PAGE_POLICY, pageShell } from './page/shell.ts';
import { Relay } from './proxy/proxied-answer.ts';
import { ReverseProxy, UpstreamError, type UpstreamRequest } from './proxy/reverse-proxy.ts';
import { pathToRoot, SLASH_SCRIPT, SLASH_SOURCE, withInHead, withScripts } from './proxy/tensorboard-page.ts';
import type { TensorBoardTarget } from './proxy/tensorboard-target.ts';
import { Tunnel } from './proxy/tunnel.ts';
import { WAITING_POLICY, waitingPage } from './proxy/waiting-page.ts';
import { type Access, Gate } from './server/access.ts';
import { answer, answerText, HttpError } from './server/answer.ts';

const HTML = 'text/html; charset=utf-8';
const JSON_TYPE = 'application/json; charset=utf-8';
const READ = ['GET', 'HEAD'];
const TUNNEL = ['GET', 'PUT'];
const FOREVER = { 'Cache-Control': 'public, max-age=31536000, immutable' };
/** The minimum time in ms between two log messages about failed requests to TensorBoard. */
const LOG_INTERVAL_MS = 60_000;

const UPSTREAM_STATUS: Readonly<Record<UpstreamError['kind'], readonly [number, string]>> = {
  absent: [503, 'TensorBoard does not respond at the moment.'],
  late: [504, 'TensorBoard did not respond in time.'],
  busy: [503, 'Too many requests to TensorBoard are in progress: try again.'],
};

/**
 * Serves one job's pages: TensorBoard at `/` (or the job's page if TensorBoard is unavailable), the job's page at `/tony/`, and JSON at
 * `/tony/api/v1/`. All links are relative, because the public path prefix is unknown.
 */
export class JobSite {
  readonly #api: Api;
  readonly #gate: Gate;
  readonly #tensorboard: TensorBoardTarget;
  readonly #proxy: ReverseProxy;
  readonly #relay = new Relay();
  readonly #token = randomBytes(18).toString('base64url');
  readonly #tunnel = new Tunnel(this.#token);
  readonly #log: Logger;
  #loggedAt = Number.NEGATIVE_INFINITY;

  constructor(options: { view: JobView; tensorboard: TensorBoardTarget; access: Access; log: Logger }) {
    this.#api = new Api(options.view);
    this.#gate = new Gate(options.access);
    this.#tensorboard = options.tensorboard;
    this.#proxy = new ReverseProxy(options.tensorboard);
    this.#log = options.log;
  }

  /** @param target path and query relative to the site's root, for example `/tony/api/v1/job?x=1`. */
  async handle(request: IncomingMessage, response: ServerResponse, target: string = request.url ?? '/'): Promise<void> {
    if (!isPath(target)) {
      return answerText(request, response, 400, 'The path is not valid.');
    }
    if (!(await this.#gate.admits(request, response))) {
      return;
    }
    const [path = '/'] = target.split('?', 1);
    const query = new URLSearchParams(target.slice(path.length));
    if (path === '/tony') {
      return this.#slash(request, response);
    }
    if (path.startsWith('/tony/')) {
      return this.#own(request, response, path, query);
    }
    if (!allowed(request, response, READ)) {
      return;
    }
    const { state } = this.#tensorboard.status();
    if (state === 'ready') {
      const upstream = { method: request.method ?? 'GET', path: target, headers: request.headers, body: null };
      return this.#forward(request, response, path, upstream);
    }
    if (path !== '/') {
      return answerText(request, response, state === 'off' ? 404 : 503, `TensorBoard is not available (${state}).`);
    }
    if (state === 'waiting' || state === 'starting') {
      return this.#waiting(request, response);
    }
    return jobPage(request, response, 'tony/');
  }

  expects(address: string): boolean {
    return this.#gate.expects(address);
  }

  close(): void {
    this.#proxy.close();
    this.#tunnel.close();
  }

  async #own(request: IncomingMessage, response: ServerResponse, path: string, query: URLSearchParams): Promise<void> {
    if (path === '/tony/tunnel' || path.startsWith('/tony/tunnel/')) {
      return this.#tunnelled(request, response, path, query);
    }
    if (!allowed(request, response, READ)) {
      return;
    }
    if (path === '/tony/') {
      return jobPage(request, response, '');
    }
    const [, resource] = /^\/tony\/api\/v1\/([\w-]+)$/.exec(path) ?? [];
    if (resource !== undefined) {
      const { status, body, gzip } = await this.#api.get(resource, query);
      return answer(request, response, { status, type: JSON_TYPE, body, gzip });
    }
    const [, name] = /^\/tony\/assets\/([\w.-]+)$/.exec(path) ?? [];
    const asset = name === undefined ? undefined : ASSETS.get(name);
    if (asset !== undefined) {
      return answer(request, response, { ...asset, headers: FOREVER });
    }
    return answerText(request, response, 404, 'There is no such page.');
  }

  /** Redirects with an HTML page. A gateway may follow an HTTP redirect itself, and the browser would then keep the old URL. */
  #slash(request: IncomingMessage, response: ServerResponse): void {
    const body = '<!doctype html><meta http-equiv="refresh" content="0; url=tony/"><a href="tony/">The job</a>\n';
    answer(request, response, { type: HTML, body });
  }

  #waiting(request: IncomingMessage, response: ServerResponse): void {
    const headers = { 'Content-Security-Policy': WAITING_POLICY };
    answer(request, response, { type: HTML, body: waitingPage(this.#tensorboard.status()), headers });
  }

  async #tunnelled(request: IncomingMessage, response: ServerResponse, path: string, query: URLSearchParams): Promise<void> {
    if (!allowed(request, response, TUNNEL)) {
      return;
    }
    try {
      if (path === '/tony/tunnel/probe') {
        return answerText(request, response, 200, await this.#tunnel.probed(request, query));
      }
      if (path === '/tony/tunnel/part') {
        this.#tunnel.keepPart(query);
        return answerText(request, response, 200, 'kept');
      }
      if (path !== '/tony/tunnel') {
        return answerText(request, response, 404, 'There is no such page.');
      }
      const upstream = await this.#tunnel.received(request, query);
      // Disables browser caching, because the URL does not identify the tunnelled request.
      await this.#forward(request, response, path, upstream, NO_STORE);
    } catch (error) {
      if (!(error instanceof HttpError)) {
        throw error;
      }
      answerText(request, response, error.status, error.message);
    }
  }

  async #forward(
    request: IncomingMessage,
    response: ServerResponse,
    path: string,
    upstream: UpstreamRequest,
    headers: OutgoingHttpHeaders = {},
  ): Promise<void> {
    const disconnected = new AbortController();
    response.once('close', () => disconnected.abort(new Error('the browser disconnected')));
    try {
      const answered = await this.#proxy.send(upstream, disconnected.signal);
      await this.#relay.pass(answered, request, response, { path, upstreamPath: upstream.path, headers, page: this.#pageChange(path) });
    } catch (error) {
      if (disconnected.signal.aborted) {
        return;
      }
      this.#logFailure(error);
      if (response.headersSent) {
        return void response.destroy();
      }
      if (path === '/' && error instanceof UpstreamError && error.kind === 'absent') {
        return this.#waiting(request, response);
      }
      const [status, message] =
        error instanceof UpstreamError ? UPSTREAM_STATUS[error.kind] : ([502, 'TensorBoard’s response cannot be forwarded.'] as const);
      answerText(request, response, status, message);
    }
  }

  #pageChange(path: string) {
    const atRoot = path === '/';
    const root = pathToRoot(path);
    // `data-job` distinguishes the page at the site's root from the pages that TensorBoard embeds.
    const tunnel = `<script src="${root}tony/assets/${assetName('tunnel.js')}" data-token="${this.#token}"${atRoot ? ' data-job' : ''}></script>`;
    const inserted = atRoot ? `<script>${SLASH_SCRIPT}</script>${tunnel}` : tunnel;
    return {
      html: (text: string) => withInHead(text, inserted, root),
      policy: (policy: string | undefined) => withScripts(policy, atRoot ? [SLASH_SOURCE] : []),
    };
  }

  #logFailure(error: unknown): void {
    if (performance.now() - this.#loggedAt < LOG_INTERVAL_MS) {
      return;
    }
    this.#loggedAt = performance.now();
    this.#log.warn({ error: messageOf(error) }, 'a request to TensorBoard failed');
  }
}

const NO_STORE = { 'cache-control': 'no-store' };

function jobPage(request: IncomingMessage, response: ServerResponse, base: string): void {
  // Only the page at the site's root needs the script that adds a missing trailing slash to the URL.
  const atRoot = base !== '';
  const shell = pageShell({ base });
  const body = atRoot ? withInHead(shell, `<script>${SLASH_SCRIPT}</script>`, '') : shell;
  const policy = atRoot ? withScripts(PAGE_POLICY, [SLASH_SOURCE]) : PAGE_POLICY;
  answer(request, response, { type: HTML, body, headers: { 'Content-Security-Policy': policy } });
}

function allowed(request: IncomingMessage, response: ServerResponse, methods: readonly string[]): boolean {
  if (methods.includes(request.method ?? '')) {
    return true;
  }
  answerText(request, response, 405, `Only ${methods.join(' and ')} are supported.`, { Allow: methods.join(', ') });
  return false;
}

/**
 * Returns whether the target is a valid path below the site's root. Rejects other hosts, `..` segments, and characters that HTTP clients
 * never send.
 */
function isPath(target: string): boolean {
  if (!/^\/(?!\/)[\x21-\x7e]*$/.test(target)) {
    return false;
  }
  const segments = (target.split('?', 1)[0] ?? '').split('/');
  return segments.every((segment) => !/^(?:\.|%2e){2}$|%2f|%5c|\\|%00/i.test(segment));
}
