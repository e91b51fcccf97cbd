import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Logger } from '../conf/log.ts';
import { type Access, Gate } from './access.ts';
import { answer, answerText } from './answer.ts';
import { Api } from './api.ts';
import type { JobView } from './job-view.ts';
import { ASSETS } from './page/assets.ts';
import { PAGE_POLICY, pageShell } from './page/shell.ts';
import type { TensorBoardTarget } from './tensorboard-target.ts';

const HTML = 'text/html; charset=utf-8';

/**
 * One job's site: TensorBoard at `/` (the job's page where there is none), the job's page at `/tony/`, JSON at `/tony/api/`.
 * All links are relative: what leads here (YARN's proxy, a history's path) is not known.
 */
export class JobSite {
  readonly #api: Api;
  readonly #gate: Gate;

  constructor(options: { view: JobView; tensorboard: TensorBoardTarget; access: Access; log: Logger }) {
    this.#api = new Api(options.view);
    this.#gate = new Gate(options.access);
  }

  /** @param target path and query below where the site stands, with its slash: `/tony/api/job?x=1` */
  async handle(request: IncomingMessage, response: ServerResponse, target: string = request.url ?? '/'): Promise<void> {
    const verdict = await this.#gate.judge(request);
    if (verdict.kind === 'refused') return answerText(request, response, 403, verdict.sentence);
    if (verdict.kind === 'entered') {
      const headers = { 'Set-Cookie': verdict.cookie, Location: verdict.location };
      return answerText(request, response, 303, 'Go on without the token.', headers);
    }
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      return answerText(request, response, 405, 'Only GET and HEAD are answered here.', { Allow: 'GET, HEAD' });
    }
    if (!target.startsWith('/')) return answerText(request, response, 400, 'A path begins with a slash.');
    const { pathname, searchParams } = new URL(`http://site${target}`);
    const [, asset] = /^\/tony\/assets\/([\w.-]+)$/.exec(pathname) ?? [];
    const [, resource] = /^\/tony\/api\/([\w-]+)$/.exec(pathname) ?? [];
    if (resource !== undefined) {
      const { status, body, gzip } = await this.#api.get(resource, searchParams);
      return answer(request, response, { status, type: 'application/json; charset=utf-8', body, gzip });
    }
    const found = ASSETS.get(asset ?? '');
    if (found !== undefined) {
      return answer(request, response, { ...found, headers: { 'Cache-Control': 'public, max-age=31536000, immutable' } });
    }
    if (pathname === '/' || pathname === '/tony/') {
      const body = pageShell({ base: pathname === '/' ? 'tony/' : '' });
      return answer(request, response, { type: HTML, body, headers: { 'Content-Security-Policy': PAGE_POLICY } });
    }
    return answerText(request, response, 404, 'There is no such page.');
  }

  close(): void {}
}
