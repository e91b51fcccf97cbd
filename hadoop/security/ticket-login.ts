import type { Token } from '../rpc/credentials.ts';
import { DEFAULT_TRUST, type ServerTrust } from '../tls/server-trust.ts';
import { type ClusterServices, fetchNameNodeToken, fetchResourceManagerToken } from './fetch-tokens.ts';
import type { Identity, Login, LoginDescription, TokenService } from './login.ts';
import { negotiate } from './negotiate.ts';
import { findTicket, ticketEnvironment } from './tickets.ts';

/** A cookie is replaced before it expires within this time (ms). */
const RENEW_BEFORE_MS = 60_000;

/** Proves the user's identity with a Kerberos ticket, once for each web server; then the server's cookie does. */
export class TicketLogin implements Login {
  readonly #environment: NodeJS.ProcessEnv;
  readonly #user: string;
  readonly #services: ClusterServices;
  readonly #known = new Map<string, Promise<{ readonly identity: Identity; readonly expiresAt: number }>>();
  readonly #rejected = new WeakSet<Identity>();
  readonly #tokens = new Map<string, Promise<Token>>();

  /** @param user the user's short name, for servers that demand no proof */
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
      // Another request may have begun to sign in meanwhile.
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

  /** The server demands a login since another moment, or no longer knows the key with which it signed the cookie. */
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

  /** New tokens for each job: the ResourceManager cancels them at its end. */
  async jobTokens(authorities: readonly string[]): Promise<readonly Token[]> {
    return Promise.all([
      ...((await this.#isDemanded()) ? [fetchResourceManagerToken(this, this.#services)] : []),
      ...authorities.map((authority) => fetchNameNodeToken(this, this.#services, authority)),
    ]);
  }

  /** Some clusters leave their web pages open (hadoop.http.authentication.type: simple). Their ResourceManager issues no tokens over HTTP. */
  async #isDemanded(): Promise<boolean> {
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
    return { identity, expiresAt: outcome === 'no login demanded' ? Number.POSITIVE_INFINITY : 0 };
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

/** Signs in only where the server demands it: for a server whose cluster is not known yet. */
export class TicketOnDemand extends TicketLogin {
  #isDemanded = false;

  constructor(environment: NodeJS.ProcessEnv, trust: ServerTrust) {
    super('', { ...NO_SERVICES, trust }, environment);
  }

  override async identify(url: URL): Promise<Identity> {
    return this.#isDemanded ? super.identify(url) : { query: {}, headers: {} };
  }

  override refused(url: URL, identity: Identity): boolean {
    const again = !this.#isDemanded || super.refused(url, identity);
    this.#isDemanded = true;
    return again;
  }
}

/** WebHDFS signs its cookies with another key than the other pages of the NameNode. */
function serverOf({ origin, pathname }: URL): string {
  return pathname.startsWith('/webhdfs/') ? `${origin}/webhdfs/` : origin;
}

/** A small page behind the same check as `url`. */
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
