import type { Token } from '../rpc/credentials.ts';
import { DEFAULT_TRUST, type ServerTrust } from '../tls/server-trust.ts';
import { type ClusterServices, fetchNameNodeToken, fetchResourceManagerToken } from './fetch-tokens.ts';
import type { Identity, Login, LoginDescription, TokenService } from './login.ts';
import { negotiate } from './negotiate.ts';
import { findTicket, ticketEnvironment } from './tickets.ts';

/** A cookie is renewed when less than this time (ms) remains until it expires. */
const RENEW_BEFORE_MS = 60_000;

/** Authenticates the user with a Kerberos ticket, once per web server. Later requests send the cookie that the server has issued. */
export class TicketLogin implements Login {
  readonly #environment: NodeJS.ProcessEnv;
  readonly #user: string;
  readonly #services: ClusterServices;
  readonly #known = new Map<string, Promise<{ readonly identity: Identity; readonly expiresAt: number }>>();
  readonly #rejected = new WeakSet<Identity>();
  readonly #tokens = new Map<string, Promise<Token>>();

  /** @param user the short name of the user, for servers that require no authentication. */
  constructor(user: string, services: ClusterServices, environment: NodeJS.ProcessEnv) {
    this.#user = user;
    this.#services = services;
    this.#environment = environment;
  }

  async describe(): Promise<LoginDescription> {
    const { principal, expiresAt } = await findTicket(this.#environment);
    return { text: `by the Kerberos ticket of ${principal}`, endsAt: expiresAt };
  }

  async identify(url: URL): Promise<Identity> {
    const key = serverOf(url);
    for (;;) {
      const current = this.#known.get(key);
      const known = await current;
      if (known !== undefined && known.expiresAt - Date.now() > RENEW_BEFORE_MS && !this.#rejected.has(known.identity)) {
        return known.identity;
      }
      // A concurrent request has started to sign in: use its result.
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

  /** The server has started to require authentication, or has replaced the key with which it signed the cookie. */
  refused(_url: URL, identity: Identity): boolean {
    this.#rejected.add(identity);
    return true;
  }

  async rpcToken(service: TokenService): Promise<Token> {
    const key = service === 'resource-manager' ? '' : service.nameNode;
    let token = this.#tokens.get(key);
    if (token === undefined) {
      token =
        service === 'resource-manager'
          ? fetchResourceManagerToken(this, this.#services)
          : fetchNameNodeToken(this, this.#services, service.nameNode);
      this.#tokens.set(key, token);
      token.catch(() => this.#tokens.delete(key));
    }
    return token;
  }

  /** Requests new tokens for each job, because the ResourceManager cancels them when the job ends. */
  async jobTokens(authorities: readonly string[]): Promise<readonly Token[]> {
    return Promise.all([
      ...((await this.#isLoginRequired()) ? [fetchResourceManagerToken(this, this.#services)] : []),
      ...authorities.map((authority) => fetchNameNodeToken(this, this.#services, authority)),
    ]);
  }

  /**
   * True if the ResourceManager requires authentication over HTTP. With hadoop.http.authentication.type `simple` it does not, and issues no
   * tokens over HTTP.
   */
  async #isLoginRequired(): Promise<boolean> {
    const found = await Promise.all(
      this.#services.resourceManagers.map((address) => this.identify(new URL('/ws/v1/cluster/info', address))),
    );
    return found.some(({ headers }) => headers.Cookie !== undefined);
  }

  async #signIn(url: URL): Promise<{ readonly identity: Identity; readonly expiresAt: number }> {
    const outcome = await negotiate(probeOf(url), await ticketEnvironment(this.#environment), this.#services.trust);
    if (typeof outcome === 'object') {
      return { identity: { query: {}, headers: { Cookie: outcome.header } }, expiresAt: outcome.expiresAt ?? Number.POSITIVE_INFINITY };
    }
    const identity = { query: { 'user.name': this.#user }, headers: {} };
    return { identity, expiresAt: outcome === 'no login required' ? Number.POSITIVE_INFINITY : 0 };
  }
}

const NO_SERVICES: ClusterServices = {
  trust: DEFAULT_TRUST,
  resourceManagers: [],
  resourceManagerEndpoints: [],
  renewer: '',
  nameNodes: () => [],
  nameNodeEndpoint: () => null,
};

/** Signs in only after a server has required it. For servers of a cluster whose configuration is not known yet. */
export class TicketOnDemand extends TicketLogin {
  #isLoginRequired = false;

  constructor(environment: NodeJS.ProcessEnv, trust: ServerTrust) {
    super('', { ...NO_SERVICES, trust }, environment);
  }

  override async identify(url: URL): Promise<Identity> {
    return this.#isLoginRequired ? super.identify(url) : { query: {}, headers: {} };
  }

  override refused(url: URL, identity: Identity): boolean {
    const again = !this.#isLoginRequired || super.refused(url, identity);
    this.#isLoginRequired = true;
    return again;
  }
}

/** Identifies the issuer of a cookie: WebHDFS uses a different signing key than the other pages of the NameNode. */
function serverOf({ origin, pathname }: URL): string {
  return pathname.startsWith('/webhdfs/') ? `${origin}/webhdfs/` : origin;
}

/** Returns the URL of a small page that requires the same authentication as `url`. */
function probeOf({ origin, pathname }: URL): URL {
  if (pathname.startsWith('/webhdfs/')) {
    return new URL(`${origin}/webhdfs/v1/?op=GETHOMEDIRECTORY`);
  }
  if (pathname.startsWith('/ws/v1/node/')) {
    return new URL(`${origin}/ws/v1/node/info`);
  }
  return new URL(
    pathname.startsWith('/ws/v1/cluster') || pathname.startsWith('/proxy/') ? `${origin}/ws/v1/cluster/info` : `${origin}/jmx?qry=none`,
  );
}
