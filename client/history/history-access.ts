import { createHash, createHmac, randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { sameSecret } from '../../platform/same-secret.ts';
import { cookieOf, Gate, isAddressedHere } from '../../web/server/access.ts';
import { answer, answerText } from '../../web/server/answer.ts';
import type { JobPlace } from '../records/job-place.ts';

export interface Visitor {
  /** User name. Null with token access, where visitors have the same rights as the user who runs the server. */
  readonly user: string | null;
}

export interface HistoryAccess {
  /** Authenticates a request. Returns null after sending a rejection or a redirect. */
  admit(request: IncomingMessage, response: ServerResponse): Promise<Visitor | null>;
  mayView(visitor: Visitor, place: JobPlace): Promise<boolean>;
  /** Returns whether visitors may connect from this address. Without this method, visitors may connect from any address. */
  expects?(address: string): boolean;
}

/**
 * Grants access to everyone who has the printed URL with the token. Visitors can read everything that the user who runs the server can
 * read.
 */
export class TokenAccess implements HistoryAccess {
  readonly #gate: Gate;

  constructor(token: string, hosts: readonly string[]) {
    this.#gate = new Gate({ kind: 'token', token, hosts });
  }

  async admit(request: IncomingMessage, response: ServerResponse): Promise<Visitor | null> {
    return (await this.#gate.admits(request, response)) ? { user: null } : null;
  }

  async mayView(): Promise<boolean> {
    return true;
  }
}

const COOKIE = 'tony-history-user';
/**
 * Cookie that protects the sign-in form from requests by other sites. A hidden field in the form must contain the cookie's value, which
 * other sites cannot read.
 */
const FORM_COOKIE = 'tony-history-form';
const FORM_FIELD = 'sign-in';
const FORM_SECRET = /^[\w-]{24}$/;
const CHALLENGE = { 'WWW-Authenticate': 'PseudoAuth' };
const LIFE_MS = 12 * 3_600_000;
/** Pattern that matches Linux user names. The length limit ensures that the cookie fits into a header. */
const USER = /^[A-Za-z0-9_][\w.@-]{0,127}\$?$/;

/**
 * Grants access to all users of a cluster without Kerberos, where Hadoop trusts the user name in a request. Programs add `?user.name=` to
 * each request, as they do for Hadoop's own pages. In a browser, users enter their name in a form, and the server sets a signed cookie. A
 * link with `?user.name=` only fills in the form, because an attacker could send such a link to a user. Each job's view ACL controls access
 * to its history.
 */
export class SimpleAccess implements HistoryAccess {
  readonly #key = randomBytes(32);
  readonly #viewers: (place: JobPlace) => Promise<(user: string | null) => boolean>;
  readonly #hosts: readonly string[];
  readonly #now: () => number;

  /** @param options.hosts additional host names of the server, in lower case */
  constructor(options: {
    readonly viewers: (place: JobPlace) => Promise<(user: string | null) => boolean>;
    readonly hosts: readonly string[];
    readonly now?: () => number;
  }) {
    this.#viewers = options.viewers;
    this.#hosts = options.hosts;
    this.#now = options.now ?? Date.now;
  }

  async admit(request: IncomingMessage, response: ServerResponse): Promise<Visitor | null> {
    if (!isAddressedHere(request, this.#hosts)) {
      answerText(
        request,
        response,
        403,
        'This server does not accept requests for this host name. To allow it, set history.url in tony-site.yaml to the address that users open.',
      );
      return null;
    }
    const target = request.url ?? '/';
    const query = new URLSearchParams(target.split('?', 2)[1] ?? '');
    const named = query.get('user.name')?.trim();
    const isName = named !== undefined && USER.test(named);
    if (isName && !wantsPage(request)) {
      return { user: named };
    }
    if (isName && this.#isOwnForm(request, query)) {
      response.setHeader('Set-Cookie', `${COOKIE}=${this.#signed(named)}; Path=/; HttpOnly; SameSite=Lax`);
      answerText(request, response, 303, 'Signed in.', { Location: withoutName(target) });
      return null;
    }
    const user = this.#verified(cookieOf(request.headers.cookie ?? '', COOKIE));
    if (user !== null && (named === undefined || named === user)) {
      return { user };
    }
    const sentence = named === undefined || isName ? 'Enter your user name.' : 'This is not a valid user name.';
    if (wantsPage(request)) {
      this.#showForm(request, response, sentence, isName ? named : '');
    } else {
      answerText(request, response, 401, `${sentence} Programs add ?user.name=NAME to the URL.`, CHALLENGE);
    }
    return null;
  }

  #isOwnForm(request: IncomingMessage, query: URLSearchParams): boolean {
    const expected = cookieOf(request.headers.cookie ?? '', FORM_COOKIE);
    return expected !== null && sameSecret(query.get(FORM_FIELD) ?? '', expected);
  }

  #showForm(request: IncomingMessage, response: ServerResponse, sentence: string, name: string): void {
    const form = cookieOf(request.headers.cookie ?? '', FORM_COOKIE) ?? '';
    const secret = FORM_SECRET.test(form) ? form : randomBytes(18).toString('base64url');
    response.setHeader('Set-Cookie', `${FORM_COOKIE}=${secret}; Path=/; HttpOnly; SameSite=Strict`);
    answer(request, response, {
      status: 401,
      type: 'text/html; charset=utf-8',
      body: signInPage(sentence, name, secret),
      headers: { ...CHALLENGE, 'Content-Security-Policy': POLICY },
    });
  }

  async mayView({ user }: Visitor, place: JobPlace): Promise<boolean> {
    return (await this.#viewers(place))(user);
  }

  #signed(user: string): string {
    const payload = `${Buffer.from(user).toString('base64url')}.${this.#now() + LIFE_MS}`;
    return `${payload}.${this.#signature(payload)}`;
  }

  #verified(cookie: string | null): string | null {
    const [, payload = '', name = '', until = '', signature = ''] = /^(([\w-]+)\.(\d{1,15}))\.([\w-]+)$/.exec(cookie ?? '') ?? [];
    if (!sameSecret(signature, this.#signature(payload)) || Number(until) < this.#now()) {
      return null;
    }
    return Buffer.from(name, 'base64url').toString();
  }

  #signature(payload: string): string {
    return createHmac('sha256', this.#key).update(payload).digest('base64url');
  }
}

function wantsPage(request: IncomingMessage): boolean {
  return (request.headers.accept ?? '').includes('text/html');
}

/** Returns the URL without the user name in its query. The URL is relative, so that it remains valid behind a proxy that adds a path. */
function withoutName(target: string): string {
  const [path = '', query = ''] = target.split('?', 2);
  const rest = query
    .split('&')
    .filter((each) => !/^(?:user(?:\.|%2e)name|sign-in)=/i.test(each))
    .join('&');
  return `./${path.slice(path.lastIndexOf('/') + 1)}${rest === '' ? '' : `?${rest}`}`;
}

const STYLE =
  ':root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;max-width:24rem;margin:20vh auto;padding:0 1rem}input,button{font:inherit;padding:.4rem .6rem}';

const POLICY = `default-src 'none'; style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'`;

/** Returns the sign-in form. `name` and `secret` must not contain HTML special characters. */
function signInPage(sentence: string, name: string, secret: string): string {
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>Job history - tony-ts</title><style>${STYLE}</style></head>
<body>
<h1>Job history</h1>
<form method="get">
<p><label for="name">${sentence} This cluster does not verify user names.</label></p>
<input type="hidden" name="${FORM_FIELD}" value="${secret}">
<p><input id="name" name="user.name" value="${name}" autocomplete="username" autofocus required maxlength="128"> <button>Show jobs</button></p>
</form>
</body>
</html>
`;
}
