import { createHash, createHmac, randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { cookieOf, Gate, sameText } from '../../web/access.ts';
import { answer, answerText } from '../../web/answer.ts';
import type { JobPlace } from './history-store.ts';

/** Who asks. */
export interface Visitor {
  /** Null: whoever has the token; they look with the rights of who started the server. */
  readonly user: string | null;
}

/** Who may look at which histories. */
export interface HistoryAccess {
  /** Null when the request has been answered: refused, or sent on. */
  admit(request: IncomingMessage, response: ServerResponse): Promise<Visitor | null>;
  mayView(visitor: Visitor, place: JobPlace): Promise<boolean>;
}

/** For the person who started the server: the token of the printed URL opens everything that this person may read. */
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
const LIFE_MS = 12 * 3_600_000;
/** As systems name users, and not more than a header holds. */
const USER = /^[A-Za-z0-9_][\w.@-]{0,127}\$?$/;

/**
 * For everybody on a cluster without Kerberos, where people say who they are: by `?user.name=`, as for Hadoop's own pages, then in a signed cookie. What
 * they may see is for each job's view ACL to say.
 */
export class SimpleAccess implements HistoryAccess {
  readonly #key = randomBytes(32);
  readonly #viewers: (place: JobPlace) => Promise<(user: string | null) => boolean>;
  readonly #now: () => number;

  constructor(viewers: (place: JobPlace) => Promise<(user: string | null) => boolean>, now: () => number = Date.now) {
    this.#viewers = viewers;
    this.#now = now;
  }

  async admit(request: IncomingMessage, response: ServerResponse): Promise<Visitor | null> {
    const target = request.url ?? '/';
    const named = new URLSearchParams(target.split('?', 2)[1] ?? '').get('user.name')?.trim();
    if (named !== undefined && USER.test(named)) {
      response.setHeader('Set-Cookie', `${COOKIE}=${this.#signed(named)}; Path=/; HttpOnly; SameSite=Lax`);
      if (!wantsPage(request)) return { user: named };
      answerText(request, response, 303, 'Go on under that name.', { Location: withoutName(target) });
      return null;
    }
    const user = this.#verified(cookieOf(request.headers.cookie ?? '', COOKIE));
    if (user !== null) return { user };
    const headers = { 'WWW-Authenticate': 'PseudoAuth' };
    const sentence = named === undefined || named === '' ? 'Say who you are.' : 'That is no name of a user.';
    if (wantsPage(request)) {
      answer(request, response, {
        status: 401,
        type: 'text/html; charset=utf-8',
        body: signInPage(sentence),
        headers: { ...headers, 'Content-Security-Policy': POLICY },
      });
    } else answerText(request, response, 401, `${sentence} Add ?user.name=YOU to the address.`, headers);
    return null;
  }

  async mayView({ user }: Visitor, place: JobPlace): Promise<boolean> {
    return (await this.#viewers(place))(user);
  }

  #signed(user: string): string {
    const said = `${Buffer.from(user).toString('base64url')}.${this.#now() + LIFE_MS}`;
    return `${said}.${this.#seal(said)}`;
  }

  #verified(cookie: string | null): string | null {
    const [, said = '', name = '', until = '', seal = ''] = /^(([\w-]+)\.(\d{1,15}))\.([\w-]+)$/.exec(cookie ?? '') ?? [];
    if (!sameText(seal, this.#seal(said)) || Number(until) < this.#now()) return null;
    return Buffer.from(name, 'base64url').toString();
  }

  #seal(said: string): string {
    return createHmac('sha256', this.#key).update(said).digest('base64url');
  }
}

function wantsPage(request: IncomingMessage): boolean {
  return (request.headers.accept ?? '').includes('text/html');
}

/** Relative, as in web/access.ts. */
function withoutName(target: string): string {
  const [path = '', query = ''] = target.split('?', 2);
  const rest = query
    .split('&')
    .filter((each) => !/^user(\.|%2e)name=/i.test(each))
    .join('&');
  return `./${path.slice(path.lastIndexOf('/') + 1)}${rest === '' ? '' : `?${rest}`}`;
}

const STYLE =
  ':root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;max-width:24rem;margin:20vh auto;padding:0 1rem}input,button{font:inherit;padding:.4rem .6rem}';

const POLICY = `default-src 'none'; style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'`;

function signInPage(sentence: string): string {
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>Job history - tony-ts</title><style>${STYLE}</style></head>
<body>
<h1>Job history</h1>
<form method="get">
<p><label for="name">${sentence} This cluster takes your word for it.</label></p>
<p><input id="name" name="user.name" autocomplete="username" autofocus required maxlength="128"> <button>Show jobs</button></p>
</form>
</body>
</html>
`;
}
