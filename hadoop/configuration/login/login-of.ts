import { readFile } from 'node:fs/promises';
import { TonyError } from '../../../platform/errors.ts';
import { readIfExists } from '../../../platform/files/read-if-exists.ts';
import { decodeCredentials, type Token } from '../../rpc/credentials.ts';
import type { Qop } from '../../rpc/digest-md5.ts';
import { decodeDelegationIdentifier } from '../../security/delegation-identifier.ts';
import { type ClusterServices, isFileSystemToken, type TokenIssuer } from '../../security/fetch-tokens.ts';
import { parseKeyServers } from '../../security/key-servers.ts';
import { KnownServers } from '../../security/known-servers.ts';
import { type Login, SimpleLogin, type TokenService } from '../../security/login.ts';
import { TicketLogin } from '../../security/ticket-login.ts';
import { findTicket } from '../../security/tickets.ts';
import { TokenLogin, tokenFile, unreadable } from '../../security/token-login.ts';
import { trustOf } from '../authorities.ts';
import { type HadoopConfiguration, hadoopUser } from '../configuration.ts';
import { defaultPort, nameNodesOf, parseFileSystem, rpcNameOf, tokenServicesAt } from '../file-systems/name-nodes.ts';
import { fileSystemServers, namedServers } from '../file-systems/named-servers.ts';
import { hostAndPort } from '../host-and-port.ts';
import { shortName } from './auth-to-local.ts';

const logins = new WeakMap<HadoopConfiguration, Login>();

/**
 * Returns this process's login for a cluster. On a cluster without Kerberos, the login sends the user name. On a cluster with Kerberos, a
 * process in a container uses the delegation tokens, unless the user names a keytab, and any other process uses the user's Kerberos ticket.
 */
export function loginOf(configuration: HadoopConfiguration, user: string, environment: NodeJS.ProcessEnv = process.env): Login {
  if (!configuration.secure) {
    return new SimpleLogin(user);
  }
  let login = logins.get(configuration);
  if (login === undefined) {
    const tokens = tokenFile(environment);
    login = tokens
      ? new TokenLogin(
          tokens,
          new KnownServers(fileSystemServers(configuration)),
          configuration.resourceManagers,
          user,
          (origin) => tokenServicesAt(configuration, origin),
          configuration.resourceManagerEndpoints,
        )
      : new TicketLogin(user, servicesOf(configuration), environment);
    logins.set(configuration, login);
  }
  return login;
}

/** Returns a login that sends the container's delegation tokens to the given ResourceManager. */
export function containerLogin(resourceManager: string, user: string, environment: NodeJS.ProcessEnv = process.env): Login {
  return new TokenLogin(environment.HADOOP_TOKEN_FILE_LOCATION ?? '', new KnownServers([]), [resourceManager], user);
}

/** An RPC client's identity: a token, or a user name if the cluster does not use Kerberos. */
export type RpcCaller = { readonly user: string } | { readonly token: Token; readonly minimumQop: Qop };

/**
 * Returns the identity for RPC calls to a service.
 * @throws TonyError KERBEROS_*, TOKEN_NOT_FOUND
 */
export async function rpcCallerOf(configuration: HadoopConfiguration, user: string, service: TokenService): Promise<RpcCaller> {
  const token = await loginOf(configuration, user).rpcToken(service);
  return token === null ? { user } : { token, minimumQop: configuration.minimumQop };
}

/**
 * Returns the current user's short name on the cluster.
 * @throws TonyError KERBEROS_*, CREDENTIALS_INVALID, HADOOP_CONF_INVALID
 */
export async function clusterUser(configuration: HadoopConfiguration, environment: NodeJS.ProcessEnv = process.env): Promise<string> {
  if (!configuration.secure) {
    return hadoopUser(environment);
  }
  const tokens = tokenFile(environment);
  const owner = tokens ? await ownerOfTokens(tokens) : null;
  const principal = owner ?? (await findTicket(environment)).principal;
  return shortUserName(principal, configuration, environment, principal);
}

/**
 * Returns a principal's short name on the cluster.
 *
 * @param own the principal of this process. Its realm is the default realm if krb5.conf does not set one.
 * @throws TonyError KERBEROS_REALM_DENIED, HADOOP_CONF_INVALID
 */
export async function shortUserName(
  principal: string,
  configuration: HadoopConfiguration,
  environment: NodeJS.ProcessEnv,
  own: string,
): Promise<string> {
  return shortName(principal, {
    rules: configuration.get('hadoop.security.auth_to_local') ?? 'DEFAULT',
    mechanism: configuration.get('hadoop.security.auth_to_local.mechanism')?.toLowerCase() === 'mit' ? 'mit' : 'hadoop',
    defaultRealm: (await defaultRealm(environment)) ?? own.split('@')[1] ?? null,
  });
}

async function ownerOfTokens(file: string): Promise<string | null> {
  try {
    const found = decodeCredentials(await readFile(file)).tokens.find(({ token }) => isFileSystemToken(token));
    return found === undefined ? null : decodeDelegationIdentifier(found.token.identifier).owner;
  } catch (error) {
    throw unreadable(file, error);
  }
}

async function defaultRealm(environment: NodeJS.ProcessEnv): Promise<string | null> {
  for (const file of (environment.KRB5_CONFIG || '/etc/krb5.conf').split(':')) {
    const text = await readIfExists(file).catch(() => null);
    const realm = /^[ \t]*default_realm[ \t]*=[ \t]*(\S+)/m.exec(text ?? '')?.[1];
    if (realm !== undefined) {
      return realm;
    }
  }
  return null;
}

/**
 * Returns the services that issue a cluster's delegation tokens.
 * @param renewer the principal that may renew the tokens
 */
export function servicesOf(configuration: HadoopConfiguration, renewer: string = renewerOf(configuration)): ClusterServices {
  return {
    trust: trustOf(configuration),
    servers: new KnownServers(namedServers(configuration)),
    resourceManagers: configuration.resourceManagers,
    resourceManagerEndpoints: configuration.resourceManagerEndpoints,
    renewer,
    tokenIssuer: (fileSystem) => tokenIssuerOf(configuration, fileSystem),
    keyServers: parseKeyServers(configuration.keyProvider),
  };
}

function tokenIssuerOf(configuration: HadoopConfiguration, uri: string): TokenIssuer {
  const fileSystem = parseFileSystem(uri);
  if (fileSystem === null) {
    throw new TonyError('INTERNAL', `${uri} is not a file system`);
  }
  const { scheme, authority } = rpcNameOf(configuration, fileSystem);
  const isService = configuration.list('dfs.nameservices').includes(authority);
  const endpoint = isService ? null : hostAndPort(authority, defaultPort(scheme), `the authority of ${uri}`);
  return { addresses: nameNodesOf(configuration, fileSystem), scheme, endpoint, authority };
}

/** Returns the ResourceManager's principal, with _HOST replaced by the host name. */
function renewerOf(configuration: HadoopConfiguration): string {
  const principal = configuration.get('yarn.resourcemanager.principal') ?? 'yarn';
  const host = configuration.resourceManagerEndpoints[0]?.host ?? '';
  return principal.replace(/\/_HOST(?=@|$)/, `/${host.toLowerCase()}`);
}
