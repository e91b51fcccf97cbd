import { Readable } from 'node:stream';
import type { Token } from '../rpc/credentials.ts';

/** What a request carries so that a web server of the cluster recognizes its sender. May contain secrets: never print it. */
export interface Identity {
  readonly query: Readonly<Record<string, string>>;
  readonly headers: Readonly<Record<string, string>>;
}

/** How this process proves its user to the daemons of one cluster. */
export interface Login {
  /** @throws TonyError KERBEROS_*, TOKEN_MISSING */
  describe(): Promise<LoginDescription>;
  /** @throws TonyError KERBEROS_*, TOKEN_MISSING */
  identify(url: URL): Promise<Identity>;
  /** Called after HTTP 401. Returns whether `identify` may now yield an identity that the server accepts. */
  refused(url: URL, identity: Identity): boolean;
  /** The token for Hadoop RPC to the NameNodes of `authority`, or to the ResourceManager; null where the cluster trusts a user name. */
  rpcToken(service: TokenService): Promise<Token | null>;
  /** The tokens with which a job reaches these file systems and the ResourceManager; empty where the cluster trusts a user name. */
  jobTokens(authorities: readonly string[]): Promise<readonly Token[]>;
}

/** For people. */
export interface LoginDescription {
  readonly text: string;
  /** ms since the epoch; null if it never ends. */
  readonly endsAt: number | null;
}

export type TokenService = { readonly nameNode: string } | 'resource-manager';

/** States a user name, which clusters without Kerberos believe. */
export class SimpleLogin implements Login {
  readonly #identity: Identity;

  /** @param user null states no name: the cluster then uses its static user, dr.who. */
  constructor(user: string | null) {
    this.#identity = { query: user === null ? {} : { 'user.name': user }, headers: {} };
  }

  async describe(): Promise<LoginDescription> {
    return { text: 'by name: the cluster requires no Kerberos ticket', endsAt: null };
  }

  async identify(): Promise<Identity> {
    return this.#identity;
  }

  refused(): boolean {
    return false;
  }

  async rpcToken(): Promise<Token | null> {
    return null;
  }

  async jobTokens(): Promise<readonly Token[]> {
    return [];
  }
}

/** Sends a request with the sender's identity, and once more with a new one if the server no longer accepts the first. */
export async function sendAs<T>(
  login: Login,
  url: URL,
  send: (url: URL, headers: Readonly<Record<string, string>>) => Promise<T>,
  statusOf: (answer: T) => number | undefined,
): Promise<T> {
  const identity = await login.identify(url);
  const answer = await send(withQuery(url, identity.query), identity.headers);
  if (statusOf(answer) !== 401 || !login.refused(url, identity)) {
    return answer;
  }
  if (answer instanceof Readable) {
    // Frees the connection.
    answer.resume();
  }
  const renewed = await login.identify(url);
  return send(withQuery(url, renewed.query), renewed.headers);
}

function withQuery(url: URL, query: Readonly<Record<string, string>>): URL {
  const whole = new URL(url);
  for (const [name, value] of Object.entries(query)) {
    whole.searchParams.set(name, value);
  }
  return whole;
}
