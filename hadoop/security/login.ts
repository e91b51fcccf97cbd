import { Readable } from 'node:stream';
import type { Token } from '../rpc/credentials.ts';

/** Query parameters and headers that identify the sender of an HTTP request. They may contain secrets, so they must not be logged. */
export interface HttpIdentity {
  readonly query: Readonly<Record<string, string>>;
  readonly headers: Readonly<Record<string, string>>;
}

/** Authenticates the current user to one cluster's daemons. */
export interface Login {
  /**
   * Returns a description of the login to show to the user.
   * @throws TonyError KERBEROS_*, TOKEN_NOT_FOUND
   */
  describe(): Promise<LoginDescription>;
  /**
   * Returns the query parameters and headers for a request to `url`.
   * @throws TonyError KERBEROS_*, TOKEN_NOT_FOUND, SERVER_DENIED
   */
  identify(url: URL): Promise<HttpIdentity>;
  /** Lets `identify` return identities for NodeManagers that the ResourceManager reports. */
  admit(servers: readonly string[]): void;
  /** Called if a server rejects an identity with HTTP 401. Returns true if a retry with a new identity may succeed. */
  refused(url: URL, identity: HttpIdentity): boolean;
  /** Returns the token for RPC calls to a service. Returns null on a cluster without Kerberos, which accepts a user name instead. */
  rpcToken(service: TokenService): Promise<Token | null>;
  /**
   * Returns the tokens that a job needs for the file systems (such as `hdfs://ns1`) and the ResourceManager. Returns an empty list on a
   * cluster without Kerberos.
   */
  jobTokens(fileSystems: readonly string[]): Promise<readonly Token[]>;
  /** True if the user keeps using the tokens that `jobTokens` returns, so no job may cancel them. */
  readonly keepsTokens: boolean;
}

export interface LoginDescription {
  readonly text: string;
  /** Expiry in ms since the epoch, or null if the login does not expire. */
  readonly endsAt: number | null;
}

/** A service that accepts tokens: a file system, such as `hdfs://ns1`, or the ResourceManager. */
export type TokenService = { readonly fileSystem: string } | 'resource-manager';

/** Sends a user name without proof of identity. Clusters without Kerberos accept such requests. */
export class SimpleLogin implements Login {
  readonly keepsTokens = false;
  readonly #identity: HttpIdentity;

  /** @param user the name to send, or null to send none; the cluster then uses its static user, dr.who */
  constructor(user: string | null) {
    this.#identity = { query: user === null ? {} : { 'user.name': user }, headers: {} };
  }

  async describe(): Promise<LoginDescription> {
    return { text: 'by name: the cluster requires no Kerberos ticket', endsAt: null };
  }

  async identify(): Promise<HttpIdentity> {
    return this.#identity;
  }

  admit(): void {}

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
    // Consume the response, so that the connection can be reused.
    answer.resume();
  }
  const renewed = await login.identify(url);
  return send(withQuery(url, renewed.query), renewed.headers);
}

/** Adds an identity's query parameters to a URL. They may contain secrets, so the result must not be logged. */
export function withQuery(url: URL, query: Readonly<Record<string, string>>): URL {
  const whole = new URL(url);
  for (const [name, value] of Object.entries(query)) {
    whole.searchParams.set(name, value);
  }
  return whole;
}
