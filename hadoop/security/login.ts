import { Readable } from 'node:stream';
import type { Token } from '../rpc/credentials.ts';

/** Query parameters and headers that identify the sender of an HTTP request. They may contain secrets: do not log them. */
export interface Identity {
  readonly query: Readonly<Record<string, string>>;
  readonly headers: Readonly<Record<string, string>>;
}

/** Authenticates the current user to the daemons of one cluster. */
export interface Login {
  /**
   * Describes the login for the user.
   * @throws TonyError KERBEROS_*, TOKEN_MISSING
   */
  describe(): Promise<LoginDescription>;
  /**
   * Returns the identity for a request to `url`.
   * @throws TonyError KERBEROS_*, TOKEN_MISSING
   */
  identify(url: URL): Promise<Identity>;
  /** Reports HTTP 401 for an identity. Returns true if a retry with a new result of `identify` may succeed. */
  refused(url: URL, identity: Identity): boolean;
  /** Returns the token for RPC calls to a service, or null if the cluster trusts user names. */
  rpcToken(service: TokenService): Promise<Token | null>;
  /**
   * Returns the tokens that a job needs for these file systems (such as `hdfs://ns1`) and the ResourceManager; an empty list if the
   * cluster trusts user names.
   */
  jobTokens(fileSystems: readonly string[]): Promise<readonly Token[]>;
}

export interface LoginDescription {
  readonly text: string;
  /** Expiry in ms since the epoch; null if the login does not expire. */
  readonly endsAt: number | null;
}

/** The service that accepts a token: a file system, such as `hdfs://ns1`, or the ResourceManager. */
export type TokenService = { readonly fileSystem: string } | 'resource-manager';

/** Sends an unverified user name. Clusters without Kerberos accept it. */
export class SimpleLogin implements Login {
  readonly #identity: Identity;

  /** @param user null to send no name; the cluster then uses its static user, dr.who */
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

/** Sends a request with the caller's identity. After HTTP 401, retries once with a new identity. */
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
    // Read the rest of the response so that the connection can be reused.
    answer.resume();
  }
  const renewed = await login.identify(url);
  return send(withQuery(url, renewed.query), renewed.headers);
}

/** Adds the query parameters of an identity to a URL. Never print the result: it may contain secrets. */
export function withQuery(url: URL, query: Readonly<Record<string, string>>): URL {
  const whole = new URL(url);
  for (const [name, value] of Object.entries(query)) {
    whole.searchParams.set(name, value);
  }
  return whole;
}
