import { createHash } from 'node:crypto';
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { createGunzip, gzip } from 'node:zlib';
import { acceptsGzip } from '../server/answer.ts';
import { pathToRoot, withRelativeUrls } from './tensorboard-page.ts';

/** The response headers to forward. The list omits hop-by-hop headers and cookies. */
const FORWARDED = [
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

/** A response fails if no data arrives for this time, in ms. */
const SILENCE_MS = 60_000;
/** The maximum size in bytes of a page or style sheet to rewrite. */
const MAX_REWRITTEN = 16 << 20;
const MAX_CACHED_PAGES = 8;
const MAX_CACHED_PAGE_BYTES = 1 << 20;

/** Rewrites the HTML and the content security policies of pages from the upstream server. */
export interface PageChange {
  html(text: string): string;
  policy(policy: string | undefined): string;
}

export class Relay {
  readonly #cachedPages = new Map<string, Buffer>();

  /**
   * Forwards a response. Destroys it if a connection fails after the headers have been sent.
   * @param options.path the path in the browser's request. Links in the page are relative to this path.
   * @param options.upstreamPath the path in the upstream request.
   * @throws if either connection fails.
   */
  async pass(
    answered: IncomingMessage,
    request: IncomingMessage,
    response: ServerResponse,
    options: { path: string; upstreamPath: string; page: PageChange; headers?: OutgoingHttpHeaders },
  ): Promise<void> {
    const status = answered.statusCode ?? 502;
    const headers: OutgoingHttpHeaders = { 'X-Content-Type-Options': 'nosniff', 'Referrer-Policy': 'same-origin' };
    for (const name of FORWARDED) {
      if (answered.headers[name] !== undefined) {
        headers[name] = answered.headers[name];
      }
    }
    const root = pathToRoot(options.path);
    const location = answered.headers.location;
    if (location !== undefined) {
      const within = relativeLocation(location, options.upstreamPath, root);
      if (within === null) {
        throw new Error('TensorBoard redirects the browser to another site');
      }
      headers.location = within;
    }
    const type = /^\s*(text\/html|text\/css)\b/i.exec(String(answered.headers['content-type'] ?? ''))?.[1]?.toLowerCase();
    if (type === 'text/html') {
      headers['content-security-policy'] = options.page.policy(headers['content-security-policy'] as string);
    }
    const rewrite = type === 'text/html' ? options.page.html : type === 'text/css' ? (css: string) => withRelativeUrls(css, root) : null;
    const whole = status === 200 && rewrite !== null;
    if (whole) {
      for (const name of ['accept-ranges', 'content-length', 'content-encoding', 'etag', 'last-modified', 'vary']) {
        delete headers[name];
      }
    }
    // Disables browser caching, because the page contains this process's token.
    if (whole && type === 'text/html') {
      headers['cache-control'] = 'no-store';
    }
    Object.assign(headers, options.headers);

    const watch = setTimeout(() => answered.destroy(new Error(`TensorBoard sent nothing for ${SILENCE_MS / 1000} s`)), SILENCE_MS);
    answered.on('data', () => watch.refresh()).pause();
    try {
      const bodiless = request.method === 'HEAD' || status === 204 || status === 304;
      if (whole && !bodiless) {
        return await this.#changed(answered, request, response, headers, rewrite);
      }
      const unpacked = headers['content-encoding'] === 'gzip' && !acceptsGzip(request) && !bodiless;
      if (unpacked) {
        delete headers['content-encoding'];
        delete headers['content-length'];
      }
      response.writeHead(status, headers);
      if (bodiless) {
        answered.resume();
        response.end();
      } else if (unpacked) {
        await pipeline(answered, createGunzip(), response);
      } else {
        await pipeline(answered, response);
      }
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
    const compressed = acceptsGzip(request) ? await this.#gzip(body) : null;
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
    const kept = this.#cachedPages.get(key);
    if (kept !== undefined) {
      return kept;
    }
    const compressed = await promisify(gzip)(body);
    if (compressed.length <= MAX_CACHED_PAGE_BYTES) {
      this.#cachedPages.set(key, compressed);
    }
    for (const oldest of this.#cachedPages.keys()) {
      if (this.#cachedPages.size <= MAX_CACHED_PAGES) {
        break;
      }
      this.#cachedPages.delete(oldest);
    }
    return compressed;
  }
}

async function wholeBody(answered: IncomingMessage): Promise<Buffer> {
  const encoding = answered.headers['content-encoding'] ?? 'identity';
  if (encoding !== 'gzip' && encoding !== 'identity') {
    throw new Error(`TensorBoard sent a page as ${encoding}, which the request did not allow`);
  }
  const parts: Buffer[] = [];
  let length = 0;
  const collect = async (source: AsyncIterable<Buffer>): Promise<void> => {
    for await (const part of source) {
      length += part.length;
      // Limits the size after decompression: a small body may decompress to any size.
      if (length > MAX_REWRITTEN) {
        throw new Error(`TensorBoard sent a page of more than ${MAX_REWRITTEN >> 20} MiB`);
      }
      parts.push(part);
    }
  };
  if (encoding === 'gzip') {
    await pipeline(answered, createGunzip(), collect);
  } else {
    await pipeline(answered, collect);
  }
  return Buffer.concat(parts, length);
}

/**
 * Converts a redirect's target to a relative URL. Returns null if the target is outside the site.
 * @param root relative path to the site's root.
 */
export function relativeLocation(location: string, path: string, root: string): string | null {
  try {
    // Resolving against an arbitrary origin detects redirects to other hosts.
    const site = 'http://tensorboard';
    const to = new URL(location, `${site}${path}`);
    return to.origin === site && !to.pathname.startsWith('//') ? `${root || './'}${to.pathname.slice(1)}${to.search}${to.hash}` : null;
  } catch {
    return null;
  }
}
