import { lookup } from 'node:dns/promises';
import { formatAddress } from '../../platform/address.ts';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { HttpClient } from '../http/http-client.ts';
import { parseRemoteException } from '../http/remote-exception.ts';
import { AddressRound, type Outcome, outcomeOf } from '../rpc/address-round.ts';
import { decodeTokenUrl, encodeTokenUrl, RESOURCE_MANAGER_TOKEN_KIND, type Token } from '../rpc/credentials.ts';
import type { Endpoint } from '../rpc/ipc.ts';
import type { ServerTrust } from '../tls/server-trust.ts';
import type { KeyServers } from './key-servers.ts';
import type { KnownServers } from './known-servers.ts';
import { type Login, sendAs } from './login.ts';

const NAME_NODE_TOKEN_KIND = 'HDFS_DELEGATION_TOKEN';
/** The kind of token that key servers (KMS) issue. */
export const KEY_SERVER_TOKEN_KIND = 'kms-dt';

/** Token kinds for file systems that Hadoop's daemons access through webhdfs:// and swebhdfs:// URIs. */
const WEB_TOKEN_KINDS: Readonly<Record<string, string>> = { webhdfs: 'WEBHDFS delegation', swebhdfs: 'SWEBHDFS delegation' };

const FILE_SYSTEM_TOKEN_KINDS: ReadonlySet<string> = new Set([NAME_NODE_TOKEN_KIND, ...Object.values(WEB_TOKEN_KINDS)]);

/** Returns true for a token that a NameNode has issued. */
export function isFileSystemToken({ kind }: Pick<Token, 'kind'>): boolean {
  return FILE_SYSTEM_TOKEN_KINDS.has(kind);
}

/** A file system's NameNodes, which issue its tokens. */
export interface TokenIssuer {
  /** Base URLs of the NameNode web servers. */
  readonly addresses: readonly string[];
  /**
   * The URI scheme that Hadoop's daemons use to access the file system: `hdfs`, or `webhdfs` or `swebhdfs` if only a web address is known.
   */
  readonly scheme: string;
  /**
   * The server whose address the tokens use as their service name. Null for a nameservice, because the tokens use the nameservice's name
   * instead.
   */
  readonly endpoint: Endpoint | null;
  readonly authority: string;
}

/** The services that issue a cluster's delegation tokens. */
export interface ClusterServices {
  readonly trust: ServerTrust;
  /** The servers that may receive the user's identity. */
  readonly servers: KnownServers;
  /** Base URLs of the ResourceManager web servers. */
  readonly resourceManagers: readonly string[];
  /** The RPC addresses at which the ResourceManagers accept clients. */
  readonly resourceManagerEndpoints: readonly Endpoint[];
  /** The principal that may renew the tokens. */
  readonly renewer: string;
  /** Returns the NameNodes for a file system, such as `hdfs://ns1`. */
  readonly tokenIssuer: (fileSystem: string) => TokenIssuer;
  /** The key servers for the encryption zones, or null if the cluster has none. */
  readonly keyServers: KeyServers | null;
}

const MAX_WAIT_MS = 15_000;
const IDLE_TIMEOUT_MS = 15_000;
const MAXIMUM_BYTES = 64 * 1024;

/** A service that issues delegation tokens. */
export interface TokenSource {
  /** Requests a new token. Sets the token's kind and service, by which Hadoop's clients find it. */
  fetch(): Promise<Token>;
  /** Renews a token and returns its new expiry in ms since the epoch. The token's renewer must be the user to whom the login belongs. */
  renew(token: Token): Promise<number>;
}

/** Returns the token source for a file system, such as `hdfs://ns1`. */
export function nameNodeTokens(login: Login, services: ClusterServices, fileSystem: string): TokenSource {
  const { addresses, scheme, endpoint, authority } = services.tokenIssuer(fileSystem);
  const who = { from: `the NameNode of ${fileSystem}`, code: 'HDFS_UNREACHABLE' } as const;
  const send = sender(login, services, addresses, who);
  return {
    async fetch() {
      const query = new URLSearchParams({ op: 'GETDELEGATIONTOKEN', renewer: services.renewer });
      const token = webToken(await send({ method: 'GET', path: `/webhdfs/v1/?${query}` }), who);
      const service = endpoint === null ? `ha-hdfs:${authority}` : await serviceOf(endpoint);
      return { ...token, kind: WEB_TOKEN_KINDS[scheme] ?? NAME_NODE_TOKEN_KIND, service };
    },
    async renew(token) {
      const query = new URLSearchParams({ op: 'RENEWDELEGATIONTOKEN', token: encodeTokenUrl(token) });
      return expiryOf(await send({ method: 'PUT', path: `/webhdfs/v1/?${query}` }), who);
    },
  };
}

/** Returns the token source for the key servers. With such a token, Hadoop's clients can read files in encryption zones. */
export function keyServerTokens(login: Login, services: ClusterServices, servers: KeyServers): TokenSource {
  const who = { from: `the key server ${servers.service}`, code: 'KMS_UNREACHABLE' } as const;
  const send = sender(login, services, servers.addresses, who);
  return {
    async fetch() {
      const query = new URLSearchParams({ op: 'GETDELEGATIONTOKEN', renewer: services.renewer });
      const token = webToken(await send({ method: 'GET', path: `/v1/?${query}` }), who);
      return { ...token, kind: KEY_SERVER_TOKEN_KIND, service: servers.service };
    },
    async renew(token) {
      const query = new URLSearchParams({ op: 'RENEWDELEGATIONTOKEN', token: encodeTokenUrl(token) });
      return expiryOf(await send({ method: 'PUT', path: `/v1/?${query}` }), who);
    },
  };
}

/** Returns the token source for the ResourceManager. With HA, a token is valid for all ResourceManagers. */
export function resourceManagerTokens(login: Login, services: ClusterServices): TokenSource {
  const who = { from: 'the ResourceManager', code: 'RM_UNREACHABLE' } as const;
  const path = '/ws/v1/cluster/delegation-token';
  const send = sender(login, services, services.resourceManagers, who);
  return {
    async fetch() {
      const { token } = (await send({ method: 'POST', path, body: { renewer: services.renewer } })) as { token?: unknown };
      if (typeof token !== 'string') {
        throw issuedNothing(who);
      }
      const service = await resourceManagerService(services.resourceManagerEndpoints);
      return { ...decodeTokenUrl(token), kind: RESOURCE_MANAGER_TOKEN_KIND, service };
    },
    async renew(token) {
      const headers = { 'Hadoop-YARN-RM-Delegation-Token': encodeTokenUrl(token) };
      const answer = (await send({ method: 'POST', path: `${path}/expiration`, headers })) as { 'expiration-time'?: unknown };
      return expiryOf({ long: Number(answer['expiration-time']) }, who);
    },
  };
}

/** Returns the service name of the ResourceManager's tokens: the addresses of all ResourceManagers. */
export async function resourceManagerService(endpoints: readonly Endpoint[]): Promise<string> {
  return (await Promise.all(endpoints.map(serviceOf))).join(',');
}

interface Issuer {
  readonly from: string;
  readonly code: 'HDFS_UNREACHABLE' | 'RM_UNREACHABLE' | 'KMS_UNREACHABLE';
}

/** Decodes a token in a response from WebHDFS or a key server: `{"Token":{"urlString":"..."}}`. */
function webToken(answer: object, who: Issuer): Token {
  const urlString = (answer as { Token?: { urlString?: unknown } | null }).Token?.urlString;
  if (typeof urlString !== 'string') {
    throw issuedNothing(who);
  }
  return decodeTokenUrl(urlString);
}

/** Decodes the expiry in a renewal response: `{"long":1795529211369}`. */
function expiryOf(answer: object, { from, code }: Issuer): number {
  const { long } = answer as { long?: unknown };
  if (typeof long !== 'number' || !Number.isSafeInteger(long)) {
    throw new TonyError(code, `${from.charAt(0).toUpperCase()}${from.slice(1)} renewed a delegation token, but reported no expiry.`);
  }
  return long;
}

function issuedNothing({ from, code }: Issuer): TonyError {
  return new TonyError(code, `${from.charAt(0).toUpperCase()}${from.slice(1)} issued no delegation token.`);
}

/**
 * Returns the service name that Hadoop gives to a token: the server's IP address and port, as when hadoop.security.token.service.use_ip is
 * true.
 */
async function serviceOf({ host, port }: Endpoint): Promise<string> {
  const { address } = await lookup(host.replace(/^\[|\]$/g, ''), { family: host.startsWith('[') ? 6 : 4 });
  return formatAddress({ host: address, port });
}

interface TokenRequest {
  readonly method: 'GET' | 'POST' | 'PUT';
  readonly path: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Returns a function that sends a request to one address after another until a server responds. */
function sender(login: Login, services: ClusterServices, addresses: readonly string[], who: Issuer) {
  return (request: TokenRequest): Promise<object> => send(login, services, addresses, request, who);
}

async function send(
  login: Login,
  { trust }: ClusterServices,
  addresses: readonly string[],
  { method, path, body, headers: own = {} }: TokenRequest,
  { from, code }: Issuer,
): Promise<object> {
  const http = new HttpClient({ trust });
  const content = body === undefined ? {} : { body: Buffer.from(JSON.stringify(body)) };
  const type = body === undefined ? {} : { 'Content-Type': 'application/json' };
  try {
    const outcome = await new AddressRound(addresses, MAX_WAIT_MS).run<object>(async (address): Promise<Outcome<object>> => {
      const answer = await sendAs(
        login,
        new URL(`${address}${path}`),
        (url, headers) =>
          http.fetch(
            { method, url, headers: { Accept: 'application/json', ...type, ...own, ...headers }, idleTimeoutMs: IDLE_TIMEOUT_MS },
            { maximumBytes: MAXIMUM_BYTES, ...content },
          ),
        ({ status }) => status,
      ).catch((error: unknown) => {
        if (error instanceof TonyError) {
          return outcomeOf(error);
        }
        return { again: messageOf(error) };
      });
      if ('again' in answer) {
        return answer;
      }
      const text = answer.body.toString('utf8');
      if (answer.status === 200) {
        return { result: parsed(text) };
      }
      const remote = parseRemoteException(text);
      const reason = remote === null ? `HTTP ${answer.status}` : `${remote.message} (${remote.exception})`;
      if (remote?.exception === 'StandbyException' || answer.status >= 500 || answer.status === 307) {
        return { again: reason };
      }
      throw new TonyError('KERBEROS_FAILED', `Cannot get a delegation token from ${from}: ${reason}.`);
    });
    if ('result' in outcome) {
      return outcome.result;
    }
    throw new TonyError(code, `Cannot get a delegation token from ${from}. The last attempt failed: ${outcome.reason}`);
  } finally {
    http.close();
  }
}

function parsed(text: string): object {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : {};
  } catch {
    return {};
  }
}
