import { createHash, timingSafeEqual } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { isIP } from 'node:net';
import { answer, answerText } from './answer.ts';

/**
 * Who may view the pages. Behind YARN every request comes from a proxy's host, which has authenticated the user and passes the name in a
 * cookie (the contract of YARN's AmIpFilter). On a single machine requests need a token: in the printed URL, then in a cookie, or as a
 * bearer token.
 */
export type Access =
  /** The server in front of this one has already authorised the request. */
  | { readonly kind: 'authorised' }
  | { readonly kind: 'proxy'; readonly hosts: readonly string[]; readonly mayView: (user: string | null) => boolean }
  | {
      readonly kind: 'token';
      readonly token: string;
      /** Host names under which clients may address the server, besides this machine's own names. */
      readonly hosts?: readonly string[];
    };

export type Verdict =
  | { readonly kind: 'admitted' }
  | { readonly kind: 'refused'; readonly sentence: string }
  /** The token was correct: the response moves it from the URL into a cookie. */
  | { readonly kind: 'entered'; readonly cookie: string; readonly location: string };

const ADMITTED: Verdict = { kind: 'admitted' };
/** How long resolved addresses of proxy hosts are reused (ms). */
const LOOKUP_LIFE_MS = 60_000;

/** Authorises each request. */
export class Gate {
  readonly #access: Access;
  readonly #cookieName: string;
  #proxies: { addresses: ReadonlySet<string>; at: number } | null = null;
  #lookup: Promise<ReadonlySet<string>> | null = null;

  constructor(access: Access) {
    this.#access = access;
    // Browsers share cookies among all ports of a host, so each job uses its own cookie name.
    this.#cookieName = access.kind === 'token' ? `tony-${createHash('sha256').update(access.token).digest('hex').slice(0, 12)}` : '';
  }

  /** Returns whether the request may proceed; if not, the response has been sent. */
  async admits(request: IncomingMessage, response: ServerResponse): Promise<boolean> {
    const verdict = await this.authorise(request);
    if (verdict.kind === 'refused') {
      answerText(request, response, 403, verdict.sentence);
    }
    if (verdict.kind === 'entered') {
      letIn(request, response, verdict);
    }
    return verdict.kind === 'admitted';
  }

  /** Whether requests from this address may be admitted; true as long as the proxy's addresses are unknown. */
  expects(address: string): boolean {
    if (this.#access.kind !== 'proxy') {
      return true;
    }
    const known = this.#proxies;
    // Refreshes the addresses for the next connection.
    if (known === null || performance.now() - known.at >= LOOKUP_LIFE_MS) {
      void this.#proxyAddresses(this.#access.hosts);
    }
    return known === null || known.addresses.has(address);
  }

  async authorise(request: IncomingMessage): Promise<Verdict> {
    switch (this.#access.kind) {
      case 'authorised':
        return ADMITTED;
      case 'token':
        return this.#byToken(request, this.#access);
      case 'proxy':
        return this.#byProxy(request, this.#access);
    }
  }

  #byToken(request: IncomingMessage, { token, hosts = [] }: Access & { kind: 'token' }): Verdict {
    if (!isAddressedHere(request, hosts)) {
      return refused('The host name in this address does not belong to this machine: use the printed URL.');
    }
    const bearer = /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1];
    if (bearer !== undefined) {
      return sameText(bearer, token) ? ADMITTED : refused('The token is wrong: use the token in the printed URL.');
    }
    const target = request.url ?? '/';
    const given = new URLSearchParams(target.split('?', 2)[1] ?? '').get('token');
    if (given !== null && sameText(given, token)) {
      const cookie = `${this.#cookieName}=${token}; Path=/; HttpOnly; SameSite=Strict`;
      return { kind: 'entered', cookie, location: withoutToken(target) };
    }
    const kept = cookieOf(request.headers.cookie ?? '', this.#cookieName);
    if (kept !== null && sameText(kept, token)) {
      return ADMITTED;
    }
    return refused(
      'Only the user who runs this job may view it: the token is missing or wrong. Open the whole printed URL, including `?token=`.',
    );
  }

  async #byProxy(request: IncomingMessage, { hosts, mayView }: Access & { kind: 'proxy' }): Promise<Verdict> {
    const peer = plainAddress(request.socket.remoteAddress ?? '');
    if (!(await this.#proxyAddresses(hosts)).has(peer)) {
      return refused('This page is available only through the ResourceManager: open the tracking URL of the application.');
    }
    const user = cookieOf(request.headers.cookie ?? '', 'proxy-user');
    return mayView(user) ? ADMITTED : refused(`User ${user ?? '(none)'} may not view this job: ask its owner to add you to acls.view.`);
  }

  /** During a refresh the known addresses stay valid: only the first request waits for the resolver. */
  async #proxyAddresses(hosts: readonly string[]): Promise<ReadonlySet<string>> {
    const known = this.#proxies;
    if (known !== null && performance.now() - known.at < LOOKUP_LIFE_MS) {
      return known.addresses;
    }
    this.#lookup ??= lookUp(hosts).then((addresses) => {
      // A temporary resolver failure must not lock out all users.
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
    // When a user follows a link on another site, the browser does not send a strict cookie with a redirect, but sends it when our own page
    // navigates.
    const to = location.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
    const body = `<!doctype html><meta http-equiv="refresh" content="0; url=${to}"><a href="${to}">Continue</a>\n`;
    answer(request, response, { type: 'text/html; charset=utf-8', body, headers });
  } else {
    answerText(request, response, 303, 'Continue without the token.', { ...headers, Location: location });
  }
}

function refused(sentence: string): Verdict {
  return { kind: 'refused', sentence };
}

/**
 * Whether the Host header names this machine or one of `hosts`. In a DNS rebinding attack, another site's name resolves to this machine and
 * the browser would let that site's scripts read the responses; the Host header then carries that site's name.
 */
export function isAddressedHere(request: IncomingMessage, hosts: readonly string[]): boolean {
  const host = hostname(request.headers.host ?? '');
  return isOwnName(host) || host === plainAddress(request.socket.localAddress ?? '') || hosts.includes(host);
}

/** The host of a Host header: lower case, without port and brackets. */
function hostname(header: string): string {
  return header
    .toLowerCase()
    .replace(/:\d+$/, '')
    .replace(/^\[(.*)\]$/, '$1');
}

function isOwnName(host: string): boolean {
  return host === 'localhost' || host.endsWith('.localhost') || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));
}

/**
 * Returns a relative URL, so that the path prefix of a gateway is kept; `./` prevents a segment with a colon from being parsed as a scheme.
 */
function withoutToken(target: string): string {
  const [path = '', query = ''] = target.split('?', 2);
  const rest = query
    .split('&')
    .filter((each) => !each.startsWith('token='))
    .join('&');
  return `./${path.slice(path.lastIndexOf('/') + 1)}${rest === '' ? '' : `?${rest}`}`;
}

/** Maps an IPv4-mapped IPv6 address to the IPv4 address. */
export function plainAddress(address: string): string {
  return address.startsWith('::ffff:') ? address.slice('::ffff:'.length) : address;
}

export function cookieOf(header: string, name: string): string | null {
  for (const part of header.split(';')) {
    const equals = part.indexOf('=');
    if (equals < 0 || part.slice(0, equals).trim() !== name) {
      continue;
    }
    const value = part.slice(equals + 1).trim();
    return value.replace(/^"|"$/g, '') || null;
  }
  return null;
}

/** Compares strings of equal length in constant time. */
export function sameText(a: string, b: string): boolean {
  const left = Buffer.from(a);
  const right = Buffer.from(b);
  return left.length === right.length && timingSafeEqual(left, right);
}
