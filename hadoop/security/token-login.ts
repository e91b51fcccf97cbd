import { lookup } from 'node:dns/promises';
import { readFile, stat } from 'node:fs/promises';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { decodeCredentials, encodeTokenUrl, RESOURCE_MANAGER_TOKEN_KIND, type Token } from '../rpc/credentials.ts';
import { decodeDelegationIdentifier } from './delegation-identifier.ts';
import { NAME_NODE_TOKEN_KIND } from './fetch-tokens.ts';
import type { Identity, Login, LoginDescription, TokenService } from './login.ts';

/** Authenticates with the delegation tokens in a credentials file, for processes in containers. Reads the file again when it changes. */
export class TokenLogin implements Login {
  readonly #file: string;
  readonly #user: string;
  /** Origins of the ResourceManager web servers. Only these servers receive the ResourceManager token. */
  readonly #resourceManagers: ReadonlySet<string>;
  #read: { readonly version: string; readonly tokens: readonly Token[] } | null = null;

  /** @param user sent to a ResourceManager if the file contains no token for it: the ResourceManager then requires no authentication */
  constructor(file: string, resourceManagers: readonly string[], user: string) {
    this.#file = file;
    this.#user = user;
    this.#resourceManagers = new Set(resourceManagers.map((address) => new URL(address).origin));
  }

  async describe(): Promise<LoginDescription> {
    const tokens = (await this.#tokens()).filter(({ kind }) => kind === NAME_NODE_TOKEN_KIND);
    const ends = tokens.map(({ identifier }) => decodeDelegationIdentifier(identifier).endsAt);
    return { text: 'by the delegation tokens of HADOOP_TOKEN_FILE_LOCATION', endsAt: ends.length === 0 ? null : Math.min(...ends) };
  }

  async identify(url: URL): Promise<Identity> {
    if (url.pathname.startsWith('/webhdfs/')) {
      return { query: { delegation: encodeTokenUrl(await this.#nameNodeToken(url.hostname)) }, headers: {} };
    }
    if (this.#resourceManagers.has(url.origin)) {
      const token = await this.#resourceManagerToken();
      return token === undefined
        ? { query: { 'user.name': this.#user }, headers: {} }
        : { query: {}, headers: { 'X-Hadoop-Delegation-Token': encodeTokenUrl(token) } };
    }
    return { query: {}, headers: {} };
  }

  refused(): boolean {
    return false;
  }

  async rpcToken(service: TokenService): Promise<Token> {
    if (service !== 'resource-manager') {
      return this.#nameNodeToken(hostOf(service.nameNode));
    }
    const token = await this.#resourceManagerToken();
    if (token === undefined) {
      throw this.#missing('the ResourceManager');
    }
    return token;
  }

  async jobTokens(): Promise<readonly Token[]> {
    return (await this.#tokens()).filter(({ kind }) => kind === NAME_NODE_TOKEN_KIND || kind === RESOURCE_MANAGER_TOKEN_KIND);
  }

  async #resourceManagerToken(): Promise<Token | undefined> {
    return (await this.#tokens()).find(({ kind }) => kind === RESOURCE_MANAGER_TOKEN_KIND);
  }

  /** Selects a token by its service if the file contains several: `ip:port` or `ha-hdfs:NAMESERVICE`. */
  async #nameNodeToken(host: string): Promise<Token> {
    const [only, ...others] = (await this.#tokens()).filter(({ kind }) => kind === NAME_NODE_TOKEN_KIND);
    if (only === undefined) {
      throw this.#missing('HDFS');
    }
    if (others.length === 0) {
      return only;
    }
    const addresses = await lookup(host, { all: true }).catch(() => []);
    const names = new Set([host, ...addresses.map(({ address }) => address)]);
    const found = [only, ...others].find(({ service }) => names.has(hostOf(service)) || service === `ha-hdfs:${host}`);
    if (found === undefined) {
      throw this.#missing(`HDFS at ${host}`);
    }
    return found;
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
      if (error instanceof TonyError) {
        throw error;
      }
      throw new TonyError('TOKEN_MISSING', `The file with delegation tokens cannot be read: ${messageOf(error)}.`, { cause: error });
    }
  }

  #missing(service: string): TonyError {
    return new TonyError('TOKEN_MISSING', `The credentials in HADOOP_TOKEN_FILE_LOCATION contain no delegation token for ${service}.`);
  }
}

function hostOf(address: string): string {
  return address.replace(/:\d+$/, '').replace(/^\[|\]$/g, '');
}
