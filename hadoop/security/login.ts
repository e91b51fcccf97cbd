import { Readable } from 'node:stream';
import type { Token } from '../rpc/credentials.ts';

/** The query parameters and headers that identify the sender of a request to a web server. May contain secrets: never print it. */
export interface Identity {
  readonly query: Readonly<Record<string, string>>;
  readonly headers: Readonly<Record<string, string>>;
}

/** Authenticates the user of this process to the daemons of one cluster. */
export interface Login {
  /** @throws TonyError KERBEROS_*, TOKEN_MISSING */
  describe(): Promise<LoginDescription>;
  /** @throws TonyError KERBEROS_*, TOKEN_MISSING */
  identify(url: URL): Promise<Identity>;
  /** Called after HTTP 401. Returns true if the next call of `identify` may return an identity that the server accepts. */
  refused(url: URL, identity: Identity): boolean;
  /** Returns the token for Hadoop RPC to the service; null if the cluster trusts user names. */
  rpcToken(service: TokenService): Promise<Token | null>;
  /** Returns the tokens that a job needs for these file systems and for the ResourceManager; none if the cluster trusts user names. */
  jobTokens(authorities: readonly string[]): Promise<readonly Token[]>;
}

/** The description of a login for users. */
export interface LoginDescription {
  readonly text: string;
  /** Expiry, ms since the epoch; null if the login does not expire. */
  readonly endsAt: number | null;
}

/** The NameNodes of an hdfs:// authority, or the ResourceManager. */
export type TokenService = { readonly nameNode: string } | 'resource-manager';

/** Sends the user name without a proof. Clusters without Kerberos trust it. */
export class SimpleLogin implements Login {
  readonly #identity: Identity;

  /** @param user null sends no name: the cluster then uses its static user, dr.who. */
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

/** Sends a request with the sender's identity. If the server responds with HTTP 401, repeats the request once with a new identity. */
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
    // Reads the rest of the response, so that the connection can be reused.
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
