import { lookup } from 'node:dns/promises';
import { messageOf, TonyError } from '../../platform/errors.ts';
import { HttpClient } from '../http/http-client.ts';
import { parseRemoteException } from '../http/remote-exception.ts';
import { AddressRound, type Outcome } from '../rpc/address-round.ts';
import { decodeTokenUrl, RESOURCE_MANAGER_TOKEN_KIND, type Token } from '../rpc/credentials.ts';
import type { Endpoint } from '../rpc/ipc.ts';
import type { ServerTrust } from '../tls/server-trust.ts';
import { type Login, sendAs } from './login.ts';

export const NAME_NODE_TOKEN_KIND = 'HDFS_DELEGATION_TOKEN';

/** The token kinds that Hadoop's daemons use for webhdfs:// and swebhdfs:// URIs. */
const WEB_TOKEN_KINDS: Readonly<Record<string, string>> = { webhdfs: 'WEBHDFS delegation', swebhdfs: 'SWEBHDFS delegation' };

const FILE_SYSTEM_TOKEN_KINDS: ReadonlySet<string> = new Set([NAME_NODE_TOKEN_KIND, ...Object.values(WEB_TOKEN_KINDS)]);

/** True for tokens that a NameNode has issued. */
export function isFileSystemToken({ kind }: Pick<Token, 'kind'>): boolean {
  return FILE_SYSTEM_TOKEN_KINDS.has(kind);
}

/** The NameNodes that issue the tokens of a file system. */
export interface TokenIssuer {
  /** Base URLs of their web servers. */
  readonly addresses: readonly string[];
  /** The scheme under which Hadoop's daemons know the file system: `hdfs`, or `webhdfs` or `swebhdfs` if only a web address is known. */
  readonly scheme: string;
  /** The address in the tokens' service; null for a nameservice, because its tokens contain the name of the nameservice. */
  readonly endpoint: Endpoint | null;
  readonly authority: string;
}

/** The daemons that issue a cluster's delegation tokens. */
export interface ClusterServices {
  readonly trust: ServerTrust;
  /** Base URLs of the ResourceManager web servers. */
  readonly resourceManagers: readonly string[];
  /** ResourceManager RPC addresses for clients. */
  readonly resourceManagerEndpoints: readonly Endpoint[];
  /** Principal of the ResourceManager, which renews the tokens. */
  readonly renewer: string;
  /** Returns the token issuer of a file system, such as `hdfs://ns1`. */
  readonly tokenIssuer: (fileSystem: string) => TokenIssuer;
}

const PATIENCE_MS = 15_000;
const IDLE_TIMEOUT_MS = 15_000;
const MAXIMUM_BYTES = 64 * 1024;

/**
 * Requests a delegation token from the NameNodes of a file system. Sets the token's kind and service, with which YARN's daemons look it up.
 */
export async function fetchNameNodeToken(login: Login, services: ClusterServices, fileSystem: string): Promise<Token> {
  const { addresses, scheme, endpoint, authority } = services.tokenIssuer(fileSystem);
  const query = new URLSearchParams({ op: 'GETDELEGATIONTOKEN', renewer: services.renewer });
  const answer = await request(login, services, addresses, {
    method: 'GET',
    path: `/webhdfs/v1/?${query}`,
    from: `the NameNode of ${fileSystem}`,
    code: 'HDFS_UNREACHABLE',
  });
  const urlString = (answer as { Token?: { urlString?: unknown } | null }).Token?.urlString;
  if (typeof urlString !== 'string') {
    throw new TonyError('HDFS_UNREACHABLE', `The NameNode of ${fileSystem} issued no delegation token.`);
  }
  const service = endpoint === null ? `ha-hdfs:${authority}` : await serviceOf(endpoint);
  return { ...decodeTokenUrl(urlString), kind: WEB_TOKEN_KINDS[scheme] ?? NAME_NODE_TOKEN_KIND, service };
}

/** Requests a delegation token from the ResourceManager. The token is valid for all ResourceManagers in the HA list. */
export async function fetchResourceManagerToken(login: Login, services: ClusterServices): Promise<Token> {
  const answer = await request(login, services, services.resourceManagers, {
    method: 'POST',
    path: '/ws/v1/cluster/delegation-token',
    body: { renewer: services.renewer },
    from: 'the ResourceManager',
    code: 'RM_UNREACHABLE',
  });
  const { token } = answer as { token?: unknown };
  if (typeof token !== 'string') {
    throw new TonyError('RM_UNREACHABLE', 'The ResourceManager issued no delegation token.');
  }
  const service = (await Promise.all(services.resourceManagerEndpoints.map(serviceOf))).join(',');
  return { ...decodeTokenUrl(token), kind: RESOURCE_MANAGER_TOKEN_KIND, service };
}

/** Returns the service name of a token as Hadoop sets it: the server's IP address and port (hadoop.security.token.service.use_ip). */
async function serviceOf({ host, port }: Endpoint): Promise<string> {
  const { address } = await lookup(host.replace(/^\[|\]$/g, ''), { family: host.startsWith('[') ? 6 : 4 });
  return `${address.includes(':') ? `[${address}]` : address}:${port}`;
}

interface TokenRequest {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly body?: unknown;
  readonly from: string;
  readonly code: 'HDFS_UNREACHABLE' | 'RM_UNREACHABLE';
}

async function request(
  login: Login,
  { trust }: ClusterServices,
  addresses: readonly string[],
  { method, path, body, from, code }: TokenRequest,
): Promise<object> {
  const http = new HttpClient({ trust });
  const content = body === undefined ? {} : { body: Buffer.from(JSON.stringify(body)) };
  const type = body === undefined ? {} : { 'Content-Type': 'application/json' };
  try {
    const outcome = await new AddressRound(addresses, PATIENCE_MS).run<object>(async (address): Promise<Outcome<object>> => {
      const answer = await sendAs(
        login,
        new URL(`${address}${path}`),
        (url, headers) =>
          http.fetch(
            { method, url, headers: { Accept: 'application/json', ...type, ...headers }, idleTimeoutMs: IDLE_TIMEOUT_MS },
            { maximumBytes: MAXIMUM_BYTES, ...content },
          ),
        ({ status }) => status,
      ).catch((error: unknown) => {
        if (error instanceof TonyError) {
          throw error;
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
