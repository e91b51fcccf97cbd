import { TonyError } from '../../platform/errors.ts';
import type { Token } from '../rpc/credentials.ts';
import type { ServerTrust } from '../tls/server-trust.ts';
import { type ClusterServices, keyServerTokens, nameNodeTokens, resourceManagerTokens, type TokenSource } from './fetch-tokens.ts';
import { KnownServers } from './known-servers.ts';
import type { HttpIdentity, Login, LoginDescription, TokenService } from './login.ts';
import { negotiate } from './negotiate.ts';
import { findTicket, ticketEnvironment } from './tickets.ts';

/** A cookie is replaced if its remaining lifetime, in ms, is shorter than this. */
const RENEW_BEFORE_MS = 60_000;

/** Authenticates the user with a Kerberos ticket. Signs in once per web server, and sends the server's cookie with later requests. */
export class TicketLogin implements Login {
  readonly keepsTokens = false;
  readonly #environment: NodeJS.ProcessEnv;
  readonly #user: string;
  readonly #services: ClusterServices;
  readonly #known = new Map<string, Promise<{ readonly identity: HttpIdentity; readonly expiresAt: number }>>();
  readonly #rejected = new WeakSet<HttpIdentity>();
  readonly #tokens = new Map<string, Promise<Token>>();

  /** @param user short user name, which servers without authentication require */
  constructor(user: string, services: ClusterServices, environment: NodeJS.ProcessEnv) {
    this.#user = user;
    this.#services = services;
    this.#environment = environment;
  }

  async describe(): Promise<LoginDescription> {
    const { principal, expiresAt } = await findTicket(this.#environment);
    const { TONY_KEYTAB: keytab } = this.#environment;
    // The ticket is renewed automatically.
    return keytab
      ? { text: `by the keytab ${keytab} of ${principal}`, endsAt: null }
      : { text: `by the Kerberos ticket of ${principal}`, endsAt: expiresAt };
  }

  async identify(url: URL): Promise<HttpIdentity> {
    this.#services.servers.check(url);
    const key = serverOf(url);
    for (;;) {
      const current = this.#known.get(key);
      const known = await current;
      if (known !== undefined && known.expiresAt - Date.now() > RENEW_BEFORE_MS && !this.#rejected.has(known.identity)) {
        return known.identity;
      }
      // If a concurrent request has already started to sign in, use its result.
      if (this.#known.get(key) !== current) {
        continue;
      }
      const signing = this.#signIn(url);
      this.#known.set(key, signing);
      try {
        return (await signing).identity;
      } catch (error) {
        this.#known.delete(key);
        throw error;
      }
    }
  }

  admit(servers: readonly string[]): void {
    for (const server of servers) {
      this.#services.servers.add(server);
    }
  }

  /**
   * Always allows a retry. A server responds with HTTP 401 if it has started to require authentication, or if it has replaced the key with
   * which it signs cookies.
   */
  refused(_url: URL, identity: HttpIdentity): boolean {
    this.#rejected.add(identity);
    return true;
  }

  async rpcToken(service: TokenService): Promise<Token> {
    const key = service === 'resource-manager' ? '' : service.fileSystem;
    let token = this.#tokens.get(key);
    if (token === undefined) {
      token =
        service === 'resource-manager' ? this.#resourceManagerToken() : nameNodeTokens(this, this.#services, service.fileSystem).fetch();
      this.#tokens.set(key, token);
      token.catch(() => this.#tokens.delete(key));
    }
    return token;
  }

  async #resourceManagerToken(): Promise<Token> {
    if (await this.#isLoginRequired()) {
      return resourceManagerTokens(this, this.#services).fetch();
    }
    throw new TonyError('KERBEROS_FAILED', "The ResourceManager's web server requires no login, so it issues no token for Hadoop RPC.", {
      hint: 'Set hadoop.http.authentication.type to kerberos on the ResourceManager. Jobs run even without this setting.',
    });
  }

  /** Requests new tokens for each job, because the ResourceManager cancels a job's tokens when the job ends. */
  async jobTokens(fileSystems: readonly string[]): Promise<readonly Token[]> {
    return Promise.all((await this.tokenSources(fileSystems)).map((source) => source.fetch()));
  }

  /** Returns the sources for the tokens that a job needs. */
  async tokenSources(fileSystems: readonly string[]): Promise<readonly TokenSource[]> {
    const { keyServers } = this.#services;
    return [
      ...((await this.#isLoginRequired()) ? [resourceManagerTokens(this, this.#services)] : []),
      ...fileSystems.map((fileSystem) => nameNodeTokens(this, this.#services, fileSystem)),
      ...(keyServers === null ? [] : [keyServerTokens(this, this.#services, keyServers)]),
    ];
  }

  /**
   * Returns true if the ResourceManager requires authentication over HTTP. If not (hadoop.http.authentication.type is `simple`), it does
   * not issue tokens over HTTP.
   */
  async #isLoginRequired(): Promise<boolean> {
    const tried = await Promise.allSettled(
      this.#services.resourceManagers.map((address) => this.identify(new URL('/ws/v1/cluster/info', address))),
    );
    const found = tried.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
    const failures = tried.flatMap((each) => (each.status === 'rejected' ? [each.reason as unknown] : []));
    // Ignore servers with untrusted certificates if another server has responded.
    const [failure] = failures.filter((each) => found.length === 0 || !(each instanceof TonyError && each.code === 'TLS_FAILED'));
    if (failure !== undefined) {
      throw failure;
    }
    return found.some(({ headers }) => headers.Cookie !== undefined);
  }

  async #signIn(url: URL): Promise<{ readonly identity: HttpIdentity; readonly expiresAt: number }> {
    const outcome = await negotiate(probeOf(url), await ticketEnvironment(this.#environment), this.#services.trust);
    if (typeof outcome === 'object') {
      return { identity: { query: {}, headers: { Cookie: outcome.header } }, expiresAt: outcome.expiresAt ?? Number.POSITIVE_INFINITY };
    }
    const identity = { query: { 'user.name': this.#user }, headers: {} };
    return { identity, expiresAt: outcome === 'no login required' ? Number.POSITIVE_INFINITY : 0 };
  }
}

/** Matches WebHDFS paths. On a Knox gateway, they have a prefix. */
const WEB_HDFS = /^(?:\/gateway\/[^/]+)?\/webhdfs\//;

const NO_SERVICES: Omit<ClusterServices, 'servers' | 'trust'> = {
  resourceManagers: [],
  resourceManagerEndpoints: [],
  renewer: '',
  tokenIssuer: () => ({ addresses: [], scheme: 'hdfs', endpoint: null, authority: '' }),
  keyServers: null,
};

/**
 * A login for use before the cluster's configuration is known. It signs in only to the server that the user names, and only if this server
 * rejects a request without authentication.
 */
export class TicketOnDemand extends TicketLogin {
  #isLoginRequired = false;

  constructor(server: URL, environment: NodeJS.ProcessEnv, trust: ServerTrust) {
    super('', { ...NO_SERVICES, servers: new KnownServers([server.href]), trust }, environment);
  }

  override async identify(url: URL): Promise<HttpIdentity> {
    return this.#isLoginRequired ? super.identify(url) : { query: {}, headers: {} };
  }

  override refused(url: URL, identity: HttpIdentity): boolean {
    const again = !this.#isLoginRequired || super.refused(url, identity);
    this.#isLoginRequired = true;
    return again;
  }
}

/**
 * Returns the part of a server for which a cookie is valid. A NameNode signs the cookies for WebHDFS and for its other pages with different
 * keys.
 */
function serverOf({ origin, pathname }: URL): string {
  return `${origin}${WEB_HDFS.exec(pathname)?.[0] ?? ''}`;
}

/** Returns the URL of a small page that requires the same authentication as `url`. */
function probeOf({ origin, pathname }: URL): URL {
  const webHdfs = WEB_HDFS.exec(pathname)?.[0];
  if (webHdfs !== undefined) {
    return new URL(`${origin}${webHdfs}v1/?op=GETHOMEDIRECTORY`);
  }
  if (pathname.startsWith('/ws/v1/node/')) {
    return new URL(`${origin}/ws/v1/node/info`);
  }
  // A key server checks the authentication first, so the path does not have to exist.
  if (pathname.endsWith('/v1/')) {
    return new URL(`${origin}${pathname}`);
  }
  return new URL(
    pathname.startsWith('/ws/v1/cluster') || pathname.startsWith('/proxy/') ? `${origin}/ws/v1/cluster/info` : `${origin}/jmx?qry=none`,
  );
}
