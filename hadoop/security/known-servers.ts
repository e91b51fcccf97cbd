import { TonyError } from '../../platform/errors.ts';

/**
 * The web servers that may receive the user's identity: a Kerberos ticket, a cookie, a delegation token or a password. Every login consults
 * this list before it produces an identity. The list contains the servers that the configuration names, and the NodeManagers that the
 * ResourceManager reports.
 *
 * The list must not contain an address that comes from a job, such as a URI in job.yaml or an address in a job's status. A Kerberos ticket
 * is valid for every web server on a host, so the recipient could use it to act as the user on that host's NodeManager or NameNode. For the
 * same reason, an entry is a scheme, a host and a port: a job's programs can listen on other ports of the cluster's hosts.
 */
export class KnownServers {
  readonly #origins: Set<string>;

  /** @param servers base URLs, such as `http://nn:9870` */
  constructor(servers: Iterable<string>) {
    this.#origins = new Set([...servers].map((server) => new URL(server).origin));
  }

  has(url: URL): boolean {
    return this.#origins.has(url.origin);
  }

  /** Adds a server that the ResourceManager reports. */
  add(server: string): void {
    if (URL.canParse(server)) {
      this.#origins.add(new URL(server).origin);
    }
  }

  /** @throws TonyError SERVER_DENIED */
  check(url: URL): void {
    if (!this.has(url)) {
      throw new TonyError(
        'SERVER_DENIED',
        `${url.origin} receives no ticket or token of this user: neither the Hadoop configuration nor the ResourceManager names this server.`,
      );
    }
  }
}
