import { lookup } from 'node:dns/promises';
import { readFile, stat } from 'node:fs/promises';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { decodeCredentials, encodeTokenUrl, RESOURCE_MANAGER_TOKEN_KIND, type Token } from '../rpc/credentials.ts';
import type { Endpoint } from '../rpc/ipc.ts';
import { decodeDelegationIdentifier } from './delegation-identifier.ts';
import { isFileSystemToken, KEY_SERVER_TOKEN_KIND, resourceManagerService } from './fetch-tokens.ts';
import type { KnownServers } from './known-servers.ts';
import type { HttpIdentity, Login, LoginDescription, TokenService } from './login.ts';

/** The service of a token that the ResourceManager can renew: the addresses of one or more ResourceManagers. */
const ADDRESSES = /^[^,]+:\d+(,[^,]+:\d+)*$/;

/** The kinds of a job's tokens other than those for file systems. */
const OF_OTHER_SERVICES: ReadonlySet<string> = new Set([RESOURCE_MANAGER_TOKEN_KIND, KEY_SERVER_TOKEN_KIND]);

/**
 * Authenticates a process in a container with the delegation tokens in its credentials file. If the file changes, the login reads it again.
 */
export class TokenLogin implements Login {
  readonly keepsTokens = true;
  readonly #file: string;
  readonly #user: string;
  readonly #fileSystems: KnownServers;
  /** Origins of the ResourceManager web servers. Only these servers receive the ResourceManager token. */
  readonly #resourceManagers: ReadonlySet<string>;
  readonly #servicesAt: (origin: string) => readonly string[];
  readonly #endpoints: readonly Endpoint[];
  #read: { readonly version: string; readonly tokens: readonly Token[] } | null = null;

  /**
   * @param fileSystems the web servers that may receive the tokens of file systems
   * @param user the user name to send to a ResourceManager if the file does not contain a token for it; such a ResourceManager does not
   * require authentication
   * @param servicesAt returns the token services for the NameNodes that are configured at an origin: `ha-hdfs:NAMESERVICE` or the RPC
   * address `host:port`
   * @param endpoints the RPC addresses of the ResourceManagers
   */
  constructor(
    file: string,
    fileSystems: KnownServers,
    resourceManagers: readonly string[],
    user: string,
    servicesAt: (origin: string) => readonly string[] = () => [],
    endpoints: readonly Endpoint[] = [],
  ) {
    this.#file = file;
    this.#fileSystems = fileSystems;
    this.#user = user;
    this.#servicesAt = servicesAt;
    this.#endpoints = endpoints;
    this.#resourceManagers = new Set(resourceManagers.map((address) => new URL(address).origin));
  }

  async describe(): Promise<LoginDescription> {
    const tokens = (await this.#tokens()).filter(isFileSystemToken);
    const ends = tokens.map(({ identifier }) => decodeDelegationIdentifier(identifier).endsAt);
    return { text: 'by the delegation tokens of HADOOP_TOKEN_FILE_LOCATION', endsAt: ends.length === 0 ? null : Math.min(...ends) };
  }

  async identify(url: URL): Promise<HttpIdentity> {
    if (url.pathname.startsWith('/webhdfs/')) {
      this.#fileSystems.check(url);
      return {
        query: { delegation: encodeTokenUrl(await this.#fileSystemToken([...this.#servicesAt(url.origin), url.host, url.hostname])) },
        headers: {},
      };
    }
    if (this.#resourceManagers.has(url.origin)) {
      const token = await this.#resourceManagerToken();
      return token === undefined
        ? { query: { 'user.name': this.#user }, headers: {} }
        : { query: {}, headers: { 'X-Hadoop-Delegation-Token': encodeTokenUrl(token) } };
    }
    return { query: {}, headers: {} };
  }

  /** Does nothing, because NodeManagers do not accept delegation tokens. */
  admit(): void {}

  /** @throws TonyError TOKEN_NOT_FOUND if a ResourceManager that requires authentication got only the user's name */
  refused(url: URL, { query }: HttpIdentity): boolean {
    if (this.#resourceManagers.has(url.origin) && 'user.name' in query) {
      throw this.#missing('the ResourceManager');
    }
    return false;
  }

  async rpcToken(service: TokenService): Promise<Token> {
    if (service !== 'resource-manager') {
      const authority = service.fileSystem.replace(/^\w+:\/\//, '');
      return this.#fileSystemToken([authority, hostOf(authority)]);
    }
    const token = await this.#resourceManagerToken();
    if (token === undefined) {
      throw this.#missing('the ResourceManager');
    }
    return token;
  }

  async jobTokens(): Promise<readonly Token[]> {
    const tokens = (await this.#tokens()).filter((each) => isFileSystemToken(each) || OF_OTHER_SERVICES.has(each.kind));
    return Promise.all(tokens.map((token) => this.#renewable(token)));
  }

  /**
   * Replaces a ResourceManager token's service that contains no addresses, such as the name of a pair of ResourceManagers. The
   * ResourceManager compares the service with its own address before it renews the token, and rejects jobs with other services.
   */
  async #renewable(token: Token): Promise<Token> {
    return token.kind !== RESOURCE_MANAGER_TOKEN_KIND || this.#endpoints.length === 0 || ADDRESSES.test(token.service)
      ? token
      : { ...token, service: await resourceManagerService(this.#endpoints) };
  }

  async #resourceManagerToken(): Promise<Token | undefined> {
    return (await this.#tokens()).find(({ kind }) => kind === RESOURCE_MANAGER_TOKEN_KIND);
  }

  /**
   * Returns the token for a file system. If the file contains tokens for several file systems, selects one by its service, which is
   * `ip:port` or `ha-hdfs:NAMESERVICE`.
   *
   * @param candidates services, `host:port` addresses, nameservices and hosts to look for, in order of preference
   */
  async #fileSystemToken(candidates: readonly string[]): Promise<Token> {
    const [only, ...others] = (await this.#tokens()).filter(isFileSystemToken);
    if (only === undefined) {
      throw this.#missing('HDFS');
    }
    if (others.length === 0) {
      return only;
    }
    for (const candidate of candidates) {
      const [, host = candidate, port] = /^(.*):(\d+)$/.exec(candidate) ?? [];
      const addresses = candidate.startsWith('ha-hdfs:') ? [] : await lookup(host.replace(/^\[|\]$/g, ''), { all: true }).catch(() => []);
      const hosts = new Set([host, ...addresses.map(({ address }) => address)]);
      const found = [only, ...others].find(
        ({ service }) =>
          service === candidate ||
          service === `ha-hdfs:${candidate}` ||
          (hosts.has(hostOf(service)) && (port === undefined || service.endsWith(`:${port}`))),
      );
      if (found !== undefined) {
        return found;
      }
    }
    throw this.#missing(`HDFS at ${candidates.at(-1)}`);
  }

  async #tokens(): Promise<readonly Token[]> {
    try {
      const { mtimeMs, size, ino } = await stat(this.#file);
      const version = `${mtimeMs} ${size} ${ino}`;
      if (this.#read?.version !== version) {
        this.#read = { version, tokens: decodeCredentials(await readFile(this.#file)).tokens.map(({ token }) => token) };
      }
      return this.#read.tokens;
    } catch (error) {
      throw unreadable(this.#file, error);
    }
  }

  #missing(service: string): TonyError {
    return new TonyError('TOKEN_NOT_FOUND', `The credentials in HADOOP_TOKEN_FILE_LOCATION contain no delegation token for ${service}.`);
  }
}

/** Returns the file with the delegation tokens of this process, or null if it has none. A keytab that the user names takes precedence. */
export function tokenFile({ TONY_KEYTAB: keytab, HADOOP_TOKEN_FILE_LOCATION: tokens }: NodeJS.ProcessEnv): string | null {
  return tokens && !keytab ? tokens : null;
}

/** Returns the error for a file with delegation tokens that cannot be read or decoded. */
export function unreadable(file: string, error: unknown): TonyError {
  return new TonyError('TOKEN_NOT_FOUND', `The delegation tokens in ${file} cannot be read: ${messageOf(error).replace(/\.$/, '')}.`, {
    cause: error,
  });
}

function hostOf(address: string): string {
  return address.replace(/:\d+$/, '').replace(/^\[|\]$/g, '');
}
