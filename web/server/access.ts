import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { isIP } from 'node:net';
import { sameSecret } from '../../platform/same-secret.ts';
import { answer, answerText } from './answer.ts';
import { HostAddresses } from './host-addresses.ts';
import { plainAddress } from './plain-address.ts';

/**
 * How the server authenticates viewers. On YARN, the ResourceManager's proxy authenticates the user and forwards each request with the user
 * name in a cookie (see YARN's AmIpFilter). On a single machine, each request must contain a token: in the printed URL, in a cookie, or as
 * a bearer token.
 */
export type Access =
  | { readonly kind: 'authorised' }
  | { readonly kind: 'proxy'; readonly hosts: readonly string[]; readonly mayView: (user: string | null) => boolean }
  | {
      readonly kind: 'token';
      readonly token: string;
      /** Host names that clients may use for the server, in addition to this machine's own names. */
      readonly hosts?: readonly string[];
    };

export type AccessDecision =
  | { readonly kind: 'admitted' }
  | { readonly kind: 'refused'; readonly message: string }
  /** The URL contained the correct token. The response moves the token from the URL into a cookie. */
  | { readonly kind: 'entered'; readonly cookie: string; readonly location: string };

const ADMITTED: AccessDecision = { kind: 'admitted' };

export class Gate {
  readonly #access: Access;
  readonly #cookieName: string;
  readonly #proxies: HostAddresses | null;

  constructor(access: Access) {
    this.#access = access;
    this.#proxies = access.kind === 'proxy' ? new HostAddresses(access.hosts) : null;
    // Browsers share cookies among all ports on a host, so each job has its own cookie name.
    this.#cookieName = access.kind === 'token' ? `tony-${createHash('sha256').update(access.token).digest('hex').slice(0, 12)}` : '';
  }

  /** Returns whether the request is authorised. Responds to unauthorised requests itself. */
  async admits(request: IncomingMessage, response: ServerResponse): Promise<boolean> {
    const verdict = await this.authorise(request);
    if (verdict.kind === 'refused') {
      answerText(request, response, 403, verdict.message);
    }
    if (verdict.kind === 'entered') {
      moveTokenToCookie(request, response, verdict);
    }
    return verdict.kind === 'admitted';
  }

  /** Returns whether a connection from this address may come from the proxy. Returns true until the proxy's addresses are resolved. */
  expects(address: string): boolean {
    return this.#proxies === null || this.#proxies.mayInclude(address);
  }

  async authorise(request: IncomingMessage): Promise<AccessDecision> {
    switch (this.#access.kind) {
      case 'authorised':
        return ADMITTED;
      case 'token':
        return this.#byToken(request, this.#access);
      case 'proxy':
        return this.#byProxy(request, this.#access);
    }
  }

  #byToken(request: IncomingMessage, { token, hosts = [] }: Access & { kind: 'token' }): AccessDecision {
    if (!isAddressedHere(request, hosts)) {
      return refused('The host name in this URL does not belong to this machine. Open the URL that tony-ts printed.');
    }
    const bearer = /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1];
    if (bearer !== undefined) {
      return sameSecret(bearer, token) ? ADMITTED : refused('The token is wrong. Use the token in the URL that tony-ts printed.');
    }
    const target = request.url ?? '/';
    const given = new URLSearchParams(target.split('?', 2)[1] ?? '').get('token');
    if (given !== null && sameSecret(given, token)) {
      const cookie = `${this.#cookieName}=${token}; Path=/; HttpOnly; SameSite=Strict`;
      return { kind: 'entered', cookie, location: withoutToken(target) };
    }
    const kept = cookieOf(request.headers.cookie ?? '', this.#cookieName);
    if (kept !== null && sameSecret(kept, token)) {
      return ADMITTED;
    }
    return refused(
      'Only the user who runs this job may view it: the token is missing or wrong. Open the complete URL that tony-ts printed, including `?token=`.',
    );
  }

  async #byProxy(request: IncomingMessage, { mayView }: Access & { kind: 'proxy' }): Promise<AccessDecision> {
    if (!(await this.#proxies?.include(request.socket.remoteAddress ?? ''))) {
      return refused('This page is available only through the ResourceManager: open the tracking URL of the application.');
    }
    const user = cookieOf(request.headers.cookie ?? '', 'proxy-user');
    return mayView(user) ? ADMITTED : refused(`User ${user ?? '(none)'} may not view this job: ask its owner to add you to acls.view.`);
  }
}

function moveTokenToCookie(
  request: IncomingMessage,
  response: ServerResponse,
  { cookie, location }: AccessDecision & { kind: 'entered' },
): void {
  const headers = { 'Set-Cookie': cookie };
  if (/^(?:cross|same)-site$/.test(String(request.headers['sec-fetch-site'] ?? ''))) {
    // If the user has followed a link from another site, browsers omit a SameSite=Strict cookie even after an HTTP redirect. They do send
    // the cookie when a page on this site redirects, so respond with such a page.
    const to = location.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
    const body = `<!doctype html><meta http-equiv="refresh" content="0; url=${to}"><a href="${to}">Continue</a>\n`;
    answer(request, response, { type: 'text/html; charset=utf-8', body, headers });
  } else {
    answerText(request, response, 303, 'Continue without the token.', { ...headers, Location: location });
  }
}

function refused(message: string): AccessDecision {
  return { kind: 'refused', message };
}

/**
 * Returns whether the Host header names this machine or one of `hosts`. This check prevents DNS rebinding, in which an attacker's host name
 * resolves to this machine so that the attacker's scripts can read the responses. The Host header of such a request contains the attacker's
 * host name.
 */
export function isAddressedHere(request: IncomingMessage, hosts: readonly string[]): boolean {
  const host = hostname(request.headers.host ?? '');
  return isOwnName(host) || host === plainAddress(request.socket.localAddress ?? '') || hosts.includes(host);
}

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
 * Removes the token from a request's target. The result is a relative URL, which preserves a gateway's path prefix. The leading `./`
 * prevents browsers from parsing a segment with a colon as a scheme.
 */
function withoutToken(target: string): string {
  const [path = '', query = ''] = target.split('?', 2);
  const rest = query
    .split('&')
    .filter((each) => !each.startsWith('token='))
    .join('&');
  return `./${path.slice(path.lastIndexOf('/') + 1)}${rest === '' ? '' : `?${rest}`}`;
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
