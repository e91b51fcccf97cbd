import { createHash } from 'node:crypto';
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { createGunzip, gzip } from 'node:zlib';
import { takesGzip } from './answer.ts';
import { wayToRoot, withRelativeUrls } from './tensorboard-page.ts';

/** The only headers of an answer that go on: neither what concerns one connection, nor cookies. */
const PASSED_ON = [
  'accept-ranges',
  'cache-control',
  'content-disposition',
  'content-encoding',
  'content-language',
  'content-length',
  'content-range',
  'content-security-policy',
  'content-type',
  'etag',
  'expires',
  'last-modified',
  'vary',
];

/** Without any byte of the answer, ms. */
const SILENCE_MS = 60_000;
/** Of a page or a style sheet that is changed on its way. */
const MAX_REWRITTEN = 16 << 20;
/** The same page is asked for again and again: what it was compressed to is kept. */
const MAX_KEPT = 8;
const MAX_KEPT_BYTES = 1 << 20;

/** How a page of the upstream server is changed: its HTML, and the policy that comes with it. */
export interface PageChange {
  html(text: string): string;
  policy(policy: string | undefined): string;
}

/** Hands an upstream server's answers on. */
export class Relay {
  readonly #kept = new Map<string, Buffer>();

  /**
   * @param options.path at which the person's browser asked: what links are relative to
   * @param options.upstreamPath at which we asked
   * @throws when either end breaks off; once headers are sent, the response is destroyed then
   */
  async pass(
    answered: IncomingMessage,
    request: IncomingMessage,
    response: ServerResponse,
    options: { path: string; upstreamPath: string; page: PageChange; headers?: OutgoingHttpHeaders },
  ): Promise<void> {
    const status = answered.statusCode ?? 502;
    const headers: OutgoingHttpHeaders = { 'X-Content-Type-Options': 'nosniff', 'Referrer-Policy': 'same-origin' };
    for (const name of PASSED_ON) if (answered.headers[name] !== undefined) headers[name] = answered.headers[name];
    const root = wayToRoot(options.path);
    const location = answered.headers.location;
    if (location !== undefined) {
      const within = relativeLocation(location, options.upstreamPath, root);
      if (within === null) throw new Error('TensorBoard wants to send the browser elsewhere');
      headers.location = within;
    }
    const type = /^\s*(text\/html|text\/css)\b/i.exec(String(answered.headers['content-type'] ?? ''))?.[1]?.toLowerCase();
    if (type === 'text/html') headers['content-security-policy'] = options.page.policy(headers['content-security-policy'] as string);
    const rewrite = type === 'text/html' ? options.page.html : type === 'text/css' ? (css: string) => withRelativeUrls(css, root) : null;
    const whole = status === 200 && rewrite !== null;
    if (whole)
      for (const name of ['accept-ranges', 'content-length', 'content-encoding', 'etag', 'last-modified', 'vary']) delete headers[name];
    // It holds what only this process knows.
    if (whole && type === 'text/html') headers['cache-control'] = 'no-store';
    Object.assign(headers, options.headers);

    const watch = setTimeout(() => answered.destroy(new Error(`TensorBoard was silent for ${SILENCE_MS / 1000} s`)), SILENCE_MS);
    answered.on('data', () => watch.refresh()).pause();
    try {
      const bodiless = request.method === 'HEAD' || status === 204 || status === 304;
      if (whole && !bodiless) return await this.#changed(answered, request, response, headers, rewrite);
      const unpacked = headers['content-encoding'] === 'gzip' && !takesGzip(request) && !bodiless;
      if (unpacked) {
        delete headers['content-encoding'];
        delete headers['content-length'];
      }
      response.writeHead(status, headers);
      if (bodiless) {
        answered.resume();
        response.end();
      } else if (unpacked) await pipeline(answered, createGunzip(), response);
      else await pipeline(answered, response);
    } catch (error) {
      answered.destroy();
      throw error;
    } finally {
      clearTimeout(watch);
    }
  }

  async #changed(
    answered: IncomingMessage,
    request: IncomingMessage,
    response: ServerResponse,
    headers: OutgoingHttpHeaders,
    rewrite: (text: string) => string,
  ): Promise<void> {
    const body = Buffer.from(rewrite((await wholeBody(answered)).toString('utf8')));
    const compressed = takesGzip(request) ? await this.#gzip(body) : null;
    const bytes = compressed ?? body;
    response.writeHead(200, {
      ...headers,
      vary: 'Accept-Encoding',
      'content-length': bytes.length,
      ...(compressed !== null && { 'content-encoding': 'gzip' }),
    });
    response.end(bytes);
  }

  async #gzip(body: Buffer): Promise<Buffer> {
    const key = createHash('sha256').update(body).digest('base64');
    const kept = this.#kept.get(key);
    if (kept !== undefined) return kept;
    const compressed = await promisify(gzip)(body);
    if (compressed.length <= MAX_KEPT_BYTES) this.#kept.set(key, compressed);
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= MAX_KEPT) break;
      this.#kept.delete(oldest);
    }
    return compressed;
  }
}

async function wholeBody(answered: IncomingMessage): Promise<Buffer> {
  const encoding = answered.headers['content-encoding'] ?? 'identity';
  if (encoding !== 'gzip' && encoding !== 'identity') throw new Error(`TensorBoard sent a page as ${encoding}, which nobody asked for`);
  const parts: Buffer[] = [];
  let length = 0;
  const collect = async (source: AsyncIterable<Buffer>): Promise<void> => {
    for await (const part of source) {
      length += part.length;
      // Counted unpacked: a small body may unpack to any size.
      if (length > MAX_REWRITTEN) throw new Error(`TensorBoard sent a page of more than ${MAX_REWRITTEN >> 20} MiB`);
      parts.push(part);
    }
  };
  if (encoding === 'gzip') await pipeline(answered, createGunzip(), collect);
  else await pipeline(answered, collect);
  return Buffer.concat(parts, length);
}

/** Where a redirect leads, as a relative reference of whoever has `root` as its way to the site's root; null when it leads out of the site. */
export function relativeLocation(location: string, path: string, root: string): string | null {
  try {
    // Any name will do, as long as nobody else has it.
    const site = 'http://tensorboard';
    const to = new URL(location, `${site}${path}`);
    return to.origin === site && !to.pathname.startsWith('//') ? `${root || './'}${to.pathname.slice(1)}${to.search}${to.hash}` : null;
  } catch {
    return null;
  }
}
