import { TonyError } from '../../../platform/errors.ts';
import type { Endpoint } from '../../rpc/ipc.ts';
import type { HadoopConfiguration } from '../configuration.ts';
import { hostAndPort, sameAddress } from '../host-and-port.ts';

/*
 * A file system is named by a URI without a path:
 *
 *   hdfs://NAMESERVICE          dfs.nameservices lists the nameservice; dfs.ha.namenodes.NAMESERVICE lists its NameNodes or routers
 *   hdfs://HOST:PORT            the RPC address of a NameNode, port 8020 by default
 *   webhdfs://HOST:PORT         the web address of a NameNode or of HttpFS, port 9870 by default
 *   swebhdfs://HOST:PORT        the same over HTTPS, port 9871 by default
 *   webhdfs://NAMESERVICE       the web addresses of the NameNodes of a nameservice; swebhdfs:// is the same over HTTPS
 */

export type HdfsScheme = 'hdfs' | 'webhdfs' | 'swebhdfs';

export interface FileSystemName {
  readonly scheme: HdfsScheme;
  /** `host`, `host:port` or a nameservice. */
  readonly authority: string;
}

const RPC_PORT = 8020;
const HTTP_PORT = 9870;
const HTTPS_PORT = 9871;

/**
 * Parses a file system URI, such as `hdfs://ns1` or `webhdfs://nn:9870`. Returns null for other URIs, and for URIs with a path other than
 * `/`.
 */
export function parseFileSystem(uri: string): FileSystemName | null {
  const [, scheme, authority = ''] = /^(hdfs|webhdfs|swebhdfs):\/\/([^/]+)\/*$/i.exec(uri) ?? [];
  return scheme === undefined ? null : { scheme: scheme.toLowerCase() as HdfsScheme, authority };
}

export function fileSystemUri({ scheme, authority }: FileSystemName): string {
  return `${scheme}://${authority}`;
}

/** Returns the base URLs of the NameNode web servers for a file system. */
export function nameNodesOf(configuration: HadoopConfiguration, { scheme, authority }: FileSystemName): readonly string[] {
  const isHttps = scheme === 'hdfs' ? configuration.get('dfs.http.policy') === 'HTTPS_ONLY' : scheme === 'swebhdfs';
  const { suffixes } = membersOf(configuration, { scheme, authority });
  if (suffixes.length > 0) {
    return suffixes.map((suffix) =>
      webAddress(configuration, suffix, { isHttps, fallback: hostOfMember(configuration, suffix, authority) }),
    );
  }
  const { host, port } = hostAndPort(authority, defaultPort(scheme), `the authority of ${scheme}://${authority}`);
  return [`${isHttps ? 'https' : 'http'}://${host}:${scheme === 'hdfs' ? webPort(isHttps) : port}`];
}

/**
 * Returns the RPC addresses of a file system's NameNodes. Returns an empty list for a webhdfs:// or swebhdfs:// address that does not
 * belong to any NameNode in the configuration.
 *
 * @throws TonyError HADOOP_CONF_INVALID
 */
export function nameNodeEndpointsOf(configuration: HadoopConfiguration, { scheme, authority }: FileSystemName): readonly Endpoint[] {
  const { suffixes } = membersOf(configuration, { scheme, authority });
  if (scheme === 'hdfs' && !isNameservice(configuration, authority)) {
    return [hostAndPort(authority, RPC_PORT, `the authority of hdfs://${authority}`)];
  }
  return suffixes.map((suffix) => {
    const key = `dfs.namenode.rpc-address${suffix}`;
    const address = configuration.get(key);
    if (address === undefined) {
      throw new TonyError('HADOOP_CONF_INVALID', `${key} is not set.`);
    }
    return hostAndPort(address, RPC_PORT, key);
  });
}

/**
 * Returns the name that Hadoop's daemons use for the file system in RPC calls. This is the nameservice if there is one. Otherwise, for a
 * NameNode's webhdfs:// or swebhdfs:// address, it is the NameNode's RPC address if the configuration contains that address. In all other
 * cases, returns the file system unchanged.
 */
export function rpcNameOf(configuration: HadoopConfiguration, { scheme, authority }: FileSystemName): FileSystemName {
  const { service, suffixes } = membersOf(configuration, { scheme, authority });
  if (service !== null) {
    return { scheme: 'hdfs', authority: service };
  }
  const [suffix] = suffixes;
  const rpc = suffix === undefined || scheme === 'hdfs' ? undefined : configuration.get(`dfs.namenode.rpc-address${suffix}`);
  return rpc === undefined ? { scheme, authority } : { scheme: 'hdfs', authority: rpc };
}

/** Returns true if two names denote the same file system, for example a nameservice and the address of one of its NameNodes. */
export function isSameFileSystem(configuration: HadoopConfiguration, one: FileSystemName, other: FileSystemName): boolean {
  const [a, b] = [rpcNameOf(configuration, one), rpcNameOf(configuration, other)];
  if (a.scheme !== b.scheme) {
    return false;
  }
  if (a.authority.toLowerCase() === b.authority.toLowerCase()) {
    return true;
  }
  return (
    !isNameservice(configuration, a.authority) &&
    !isNameservice(configuration, b.authority) &&
    sameAddress(hostAndPort(a.authority, defaultPort(a.scheme), a.authority), hostAndPort(b.authority, defaultPort(b.scheme), b.authority))
  );
}

/**
 * Explains why a file system's servers may be unknown: its authority has no port, and is not a configured nameservice. Returns null for any
 * other authority.
 */
export function unknownNameservice(configuration: HadoopConfiguration, { scheme, authority }: FileSystemName): string | null {
  if (/:\d+$/.test(authority) || membersOf(configuration, { scheme, authority }).suffixes.length > 0) {
    return null;
  }
  const known = configuration.list('dfs.nameservices');
  const list = known.length === 0 ? 'the configuration has no dfs.nameservices' : `known nameservices: ${known.join(', ')}`;
  return `${authority} is a host, or a nameservice that dfs.nameservices does not list (${list})`;
}

/**
 * Returns the service names in the delegation tokens for the NameNode at a web address such as `http://nn1:9870`. A service name is
 * `ha-hdfs:NAMESERVICE` or the RPC address `host:port`.
 */
export function tokenServicesAt(configuration: HadoopConfiguration, origin: string): readonly string[] {
  const services = configuration.list('dfs.nameservices');
  const found = services.filter((authority) => nameNodesOf(configuration, { scheme: 'hdfs', authority }).includes(origin));
  const single = configuration.get('dfs.namenode.rpc-address') ?? defaultAuthority(configuration);
  const isSingle =
    single !== undefined &&
    !services.includes(single) &&
    nameNodesOf(configuration, { scheme: 'hdfs', authority: single }).includes(origin);
  return [...found.map((service) => `ha-hdfs:${service}`), ...(isSingle ? [single] : [])];
}

/**
 * Returns the nameservice to which an authority belongs, and the suffixes of the properties that configure the authority's NameNodes. For
 * an unknown address, the list of suffixes is empty.
 */
function membersOf(
  configuration: HadoopConfiguration,
  { scheme, authority }: FileSystemName,
): { readonly service: string | null; readonly suffixes: readonly string[] } {
  if (isNameservice(configuration, authority)) {
    return { service: authority, suffixes: suffixesOf(configuration, authority) };
  }
  const wanted = hostAndPort(authority, defaultPort(scheme), `the authority of ${scheme}://${authority}`);
  for (const service of configuration.list('dfs.nameservices')) {
    const suffix = suffixesOf(configuration, service).find((each) => isAt(configuration, each, scheme, wanted));
    if (suffix !== undefined) {
      return { service, suffixes: [suffix] };
    }
  }
  return isAt(configuration, '', scheme, wanted) ? { service: null, suffixes: [''] } : { service: null, suffixes: [] };
}

export function isNameservice(configuration: HadoopConfiguration, authority: string): boolean {
  return !authority.includes(':') && configuration.list('dfs.nameservices').includes(authority);
}

function suffixesOf(configuration: HadoopConfiguration, service: string): readonly string[] {
  const ids = configuration.list(`dfs.ha.namenodes.${service}`);
  return ids.length > 0 ? ids.map((id) => `.${service}.${id}`) : [`.${service}`];
}

/** Returns true if the NameNode whose properties have this suffix listens at the address. */
function isAt(configuration: HadoopConfiguration, suffix: string, scheme: HdfsScheme, wanted: Endpoint): boolean {
  const key = `dfs.namenode.${scheme === 'hdfs' ? 'rpc' : scheme === 'webhdfs' ? 'http' : 'https'}-address${suffix}`;
  const own = configuration.get(key) ?? (suffix === '' && scheme === 'hdfs' ? defaultAuthority(configuration) : undefined);
  if (own === undefined) {
    return false;
  }
  const address = hostAndPort(own, defaultPort(scheme), key);
  return sameAddress(address.host === '0.0.0.0' ? { ...address, host: hostOfMember(configuration, suffix, wanted.host) } : address, wanted);
}

/** Returns a NameNode's host. The host comes from the RPC address, because the web address may be 0.0.0.0. */
function hostOfMember(configuration: HadoopConfiguration, suffix: string, otherwise: string): string {
  const key = `dfs.namenode.rpc-address${suffix}`;
  const rpc = configuration.get(key) ?? (suffix === '' ? defaultAuthority(configuration) : undefined);
  return rpc === undefined ? otherwise.replace(/:\d+$/, '') : hostAndPort(rpc, RPC_PORT, key).host;
}

function defaultAuthority({ defaultFs }: HadoopConfiguration): string | undefined {
  return defaultFs.startsWith('hdfs://') ? defaultFs.slice('hdfs://'.length) : undefined;
}

function webAddress(
  configuration: HadoopConfiguration,
  suffix: string,
  { isHttps, fallback }: { readonly isHttps: boolean; readonly fallback: string },
): string {
  const scheme = isHttps ? 'https' : 'http';
  const key = `dfs.namenode.${scheme}-address${suffix}`;
  const configured = configuration.get(key);
  const { host, port } =
    configured === undefined ? { host: fallback, port: webPort(isHttps) } : hostAndPort(configured, webPort(isHttps), key);
  return `${scheme}://${host === '0.0.0.0' ? fallback : host}:${port}`;
}

function webPort(isHttps: boolean): number {
  return isHttps ? HTTPS_PORT : HTTP_PORT;
}

/** Returns the port to use if an authority does not contain one. */
export function defaultPort(scheme: HdfsScheme): number {
  return scheme === 'hdfs' ? RPC_PORT : webPort(scheme === 'swebhdfs');
}
