import { timingSafeEqual } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { messageOf } from '../conf/errors.ts';
import type { Logger } from '../conf/log.ts';
import type { JobStatus } from '../conf/status.ts';
import { statusPage } from './status-page.ts';

/**
 * Who may look. Behind YARN every request comes from a proxy's host, which has authenticated the person and names them in a cookie
 * (the contract of YARN's AmIpFilter). On one machine a bearer token is asked for.
 */
export type Access =
  | { readonly kind: 'proxy'; readonly hosts: readonly string[]; readonly mayView: (user: string | null) => boolean }
  | { readonly kind: 'token'; readonly token: string };

const HEADERS = {
  'Cache-Control': 'no-store',
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'self'",
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
};

/** Addresses of proxy hosts are looked up again after this (ms). */
const LOOKUP_LIFE_MS = 60_000;

/** The ApplicationMaster's pages behind the tracking URL: a plain status page, and the same as JSON at /tony/api/job. */
export class WebServer {
  readonly #server: Server;
  readonly #access: Access;
  readonly #status: () => JobStatus;
  readonly #log: Logger;
  #proxies: { addresses: ReadonlySet<string>; at: number } | null = null;

  private constructor(options: { access: Access; status: () => JobStatus; log: Logger }) {
    this.#access = options.access;
    this.#status = options.status;
    this.#log = options.log;
    this.#server = createServer({ requestTimeout: 10_000, headersTimeout: 10_000, maxHeaderSize: 128 << 10 }, (request, response) => {
      this.#answer(request, response).catch((error: unknown) => {
        this.#log.error({ error: messageOf(error) }, 'a request for the status page failed');
        response.destroy();
      });
    });
  }

  static async open(options: { address: string; access: Access; status: () => JobStatus; log: Logger }): Promise<WebServer> {
    const web = new WebServer(options);
    await new Promise<void>((resolve, reject) => {
      web.#server.once('error', reject);
      web.#server.listen(0, options.address, () => {
        web.#server.off('error', reject);
        resolve();
      });
    });
    return web;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const refusal = await this.#refusal(request);
    if (refusal !== null) return send(request, response, 403, 'text/plain; charset=utf-8', `${refusal}\n`);
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      response.setHeader('Allow', 'GET, HEAD');
      return send(request, response, 405, 'text/plain; charset=utf-8', 'Only GET and HEAD are answered here.\n');
    }
    switch (new URL(request.url ?? '/', 'http://master').pathname) {
      case '/':
        return send(request, response, 200, 'text/html; charset=utf-8', statusPage(this.#status()));
      case '/tony/api/job':
        return send(request, response, 200, 'application/json; charset=utf-8', JSON.stringify(this.#status()));
      default:
        return send(request, response, 404, 'text/plain; charset=utf-8', 'There is no such page.\n');
    }
  }

  /** Null when the request may be answered. */
  async #refusal(request: IncomingMessage): Promise<string | null> {
    const access = this.#access;
    if (access.kind === 'token') {
      const given = /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1] ?? '';
      return sameText(given, access.token) ? null : 'This job is shown to the user who runs it: its token is missing or wrong.';
    }
    const peer = plainAddress(request.socket.remoteAddress ?? '');
    if (!(await this.#proxyAddresses(access.hosts)).has(peer)) {
      return 'This page is reached through the ResourceManager: open the tracking URL of the application.';
    }
    const user = cookie(request.headers.cookie ?? '', 'proxy-user');
    return access.mayView(user) ? null : `User ${user ?? '(none)'} may not view this job: ask its owner to add you to acls.view.`;
  }

  async #proxyAddresses(hosts: readonly string[]): Promise<ReadonlySet<string>> {
    if (this.#proxies !== null && performance.now() - this.#proxies.at < LOOKUP_LIFE_MS) return this.#proxies.addresses;
    const found = await Promise.allSettled(hosts.map((host) => lookup(host, { all: true })));
    const addresses = new Set(
      found.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value.map(({ address }) => plainAddress(address)) : [])),
    );
    // A resolver that fails for a moment does not lock everybody out.
    if (addresses.size === 0 && this.#proxies !== null) return this.#proxies.addresses;
    this.#proxies = { addresses, at: performance.now() };
    return addresses;
  }
}

function send(request: IncomingMessage, response: ServerResponse, status: number, type: string, body: string): void {
  const bytes = Buffer.from(body);
  response.writeHead(status, { ...HEADERS, 'Content-Type': type, 'Content-Length': bytes.length });
  response.end(request.method === 'HEAD' ? undefined : bytes);
}

/** An IPv4 address that came over an IPv6 socket is the same host. */
function plainAddress(address: string): string {
  return address.startsWith('::ffff:') ? address.slice('::ffff:'.length) : address;
}

function cookie(header: string, name: string): string | null {
  for (const part of header.split(';')) {
    const equals = part.indexOf('=');
    if (equals > 0 && part.slice(0, equals).trim() === name)
      return (
        part
          .slice(equals + 1)
          .trim()
          .replace(/^"|"$/g, '') || null
      );
  }
  return null;
}

function sameText(a: string, b: string): boolean {
  const left = Buffer.from(a);
  const right = Buffer.from(b);
  return left.length === right.length && timingSafeEqual(left, right);
}
