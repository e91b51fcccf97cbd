import { createHash, timingSafeEqual } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { isIP } from 'node:net';
import { answer, answerText } from './answer.ts';

/**
 * Who may look. Behind YARN every request comes from a proxy's host, which has authenticated the person and names them in a cookie
 * (the contract of YARN's AmIpFilter). On one machine a token is asked for: in the printed URL, then in a cookie, or as a bearer token.
 */
export type Access =
  /** Whoever hands requests on has judged them. */
  | { readonly kind: 'judged' }
  | { readonly kind: 'proxy'; readonly hosts: readonly string[]; readonly mayView: (user: string | null) => boolean }
  | {
      readonly kind: 'token';
      readonly token: string;
      /** Names under which the server may be addressed, besides this machine's own. */
      readonly hosts?: readonly string[];
    };

export type Verdict =
  | { readonly kind: 'admitted' }
  | { readonly kind: 'refused'; readonly sentence: string }
  /** The token was right: it goes into a cookie, and out of the address. */
  | { readonly kind: 'entered'; readonly cookie: string; readonly location: string };

const ADMITTED: Verdict = { kind: 'admitted' };
/** Addresses of proxy hosts are looked up again after this (ms). */
const LOOKUP_LIFE_MS = 60_000;

/** Decides for each request whether it is answered. */
export class Gate {
  readonly #access: Access;
  readonly #cookieName: string;
  #proxies: { addresses: ReadonlySet<string>; at: number } | null = null;
  #lookup: Promise<ReadonlySet<string>> | null = null;

  constructor(access: Access) {
    this.#access = access;
    // Browsers keep one set of cookies for all ports of a host: each job has a name of its own.
    this.#cookieName = access.kind === 'token' ? `tony-${createHash('sha256').update(access.token).digest('hex').slice(0, 12)}` : '';
  }

  /** Answers the request itself when it may not go on. */
  async admits(request: IncomingMessage, response: ServerResponse): Promise<boolean> {
    const verdict = await this.judge(request);
    if (verdict.kind === 'refused') answerText(request, response, 403, verdict.sentence);
    if (verdict.kind === 'entered') letIn(request, response, verdict);
    return verdict.kind === 'admitted';
  }

  async judge(request: IncomingMessage): Promise<Verdict> {
    switch (this.#access.kind) {
      case 'judged':
        return ADMITTED;
      case 'token':
        return this.#byToken(request, this.#access);
      case 'proxy':
        return this.#byProxy(request, this.#access);
    }
  }

  #byToken(request: IncomingMessage, { token, hosts = [] }: Access & { kind: 'token' }): Verdict {
    const host = hostname(request.headers.host ?? '');
    // A name that somebody else's DNS leads to this machine (rebinding) comes with that name.
    if (!isOwnName(host) && host !== plainAddress(request.socket.localAddress ?? '') && !hosts.includes(host)) {
      return refused('This address leads here under a name that is not this machine’s: use the printed URL.');
    }
    const bearer = /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1];
    if (bearer !== undefined)
      return sameText(bearer, token) ? ADMITTED : refused('The token is wrong: use the one that the job has printed.');
    const target = request.url ?? '/';
    const given = new URLSearchParams(target.split('?', 2)[1] ?? '').get('token');
    if (given !== null && sameText(given, token)) {
      const cookie = `${this.#cookieName}=${token}; Path=/; HttpOnly; SameSite=Strict`;
      return { kind: 'entered', cookie, location: withoutToken(target) };
    }
    const kept = cookieOf(request.headers.cookie ?? '', this.#cookieName);
    if (kept !== null && sameText(kept, token)) return ADMITTED;
    return refused(
      'This job is shown to the user who runs it: its token is missing or wrong. Open the printed URL, with all of `?token=`.',
    );
  }

  async #byProxy(request: IncomingMessage, { hosts, mayView }: Access & { kind: 'proxy' }): Promise<Verdict> {
    const peer = plainAddress(request.socket.remoteAddress ?? '');
    if (!(await this.#proxyAddresses(hosts)).has(peer)) {
      return refused('This page is reached through the ResourceManager: open the tracking URL of the application.');
    }
    const user = cookieOf(request.headers.cookie ?? '', 'proxy-user');
    return mayView(user) ? ADMITTED : refused(`User ${user ?? '(none)'} may not view this job: ask its owner to add you to acls.view.`);
  }

  /** While names are looked up again the addresses known so far hold: no request waits for a resolver but the first. */
  async #proxyAddresses(hosts: readonly string[]): Promise<ReadonlySet<string>> {
    const known = this.#proxies;
    if (known !== null && performance.now() - known.at < LOOKUP_LIFE_MS) return known.addresses;
    this.#lookup ??= lookUp(hosts).then((addresses) => {
      // A resolver that fails for a moment does not lock everybody out.
      this.#proxies = { addresses: addresses.size === 0 && known !== null ? known.addresses : addresses, at: performance.now() };
      this.#lookup = null;
      return this.#proxies.addresses;
    });
    return known === null ? this.#lookup : known.addresses;
  }
}

async function lookUp(hosts: readonly string[]): Promise<ReadonlySet<string>> {
  const found = await Promise.allSettled(hosts.map((host) => lookup(host, { all: true })));
  return new Set(
    found.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value.map(({ address }) => plainAddress(address)) : [])),
  );
}

function letIn(request: IncomingMessage, response: ServerResponse, { cookie, location }: Verdict & { kind: 'entered' }): void {
  const headers = { 'Set-Cookie': cookie };
  if (/^(?:cross|same)-site$/.test(String(request.headers['sec-fetch-site'] ?? ''))) {
    // A link in another site's page: the browser keeps a strict cookie out of what it is redirected to, but sends it where our page leads.
    const to = location.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
    const body = `<!doctype html><meta http-equiv="refresh" content="0; url=${to}"><a href="${to}">Go on</a>\n`;
    answer(request, response, { type: 'text/html; charset=utf-8', body, headers });
  } else answerText(request, response, 303, 'Go on without the token.', { ...headers, Location: location });
}

function refused(sentence: string): Verdict {
  return { kind: 'refused', sentence };
}

/** Of a Host header; lower case, without port and brackets. */
function hostname(header: string): string {
  return header
    .toLowerCase()
    .replace(/:\d+$/, '')
    .replace(/^\[(.*)\]$/, '$1');
}

function isOwnName(host: string): boolean {
  return host === 'localhost' || host.endsWith('.localhost') || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));
}

/** Relative, so that whatever leads here stays in front of it; `./` keeps a segment with a colon from being a scheme. */
function withoutToken(target: string): string {
  const [path = '', query = ''] = target.split('?', 2);
  const rest = query
    .split('&')
    .filter((each) => !each.startsWith('token='))
    .join('&');
  return `./${path.slice(path.lastIndexOf('/') + 1)}${rest === '' ? '' : `?${rest}`}`;
}

/** An IPv4 address that came over an IPv6 socket is the same host. */
export function plainAddress(address: string): string {
  return address.startsWith('::ffff:') ? address.slice('::ffff:'.length) : address;
}

export function cookieOf(header: string, name: string): string | null {
  for (const part of header.split(';')) {
    const equals = part.indexOf('=');
    if (equals < 0 || part.slice(0, equals).trim() !== name) continue;
    const value = part.slice(equals + 1).trim();
    return value.replace(/^"|"$/g, '') || null;
  }
  return null;
}

/** Takes as long for a near miss as for a far one. */
export function sameText(a: string, b: string): boolean {
  const left = Buffer.from(a);
  const right = Buffer.from(b);
  return left.length === right.length && timingSafeEqual(left, right);
}
