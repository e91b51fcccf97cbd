import { TonyError } from '../../../platform/errors.ts';
import { parseKeyServers } from '../../security/key-servers.ts';
import { HDFS_POLICY, servesHttp } from '../authorities.ts';
import type { HadoopConfiguration } from '../configuration.ts';
import { allGateways, gatewayOf } from './gateway.ts';
import { fileSystemsOf, locationOf } from './hdfs-place.ts';
import { type FileSystemName, type HdfsScheme, isNameservice, nameNodesOf, parseFileSystem } from './name-nodes.ts';

/*
 * The servers that a Hadoop configuration names. Only these servers, and the NodeManagers that the ResourceManager reports, receive a user's
 * identity.
 */

/** Properties with the URIs of file systems. A value may contain several URIs, separated by commas. */
const FILE_SYSTEMS = ['fs.defaultFS', 'mapreduce.job.hdfs-servers'];
const FILE_SYSTEM_PREFIXES = ['fs.viewfs.mounttable.', 'yarn.nodemanager.remote-app-log-dir', 'yarn.log-aggregation.'];
const ADDRESSES: readonly (readonly [HdfsScheme, string])[] = [
  ['hdfs', 'dfs.namenode.rpc-address'],
  ['webhdfs', 'dfs.namenode.http-address'],
  ['swebhdfs', 'dfs.namenode.https-address'],
];
const SCHEMES: readonly HdfsScheme[] = ['hdfs', 'webhdfs', 'swebhdfs'];

/**
 * Returns the base URLs of all web servers that the configuration names: ResourceManagers, web proxies, NameNodes, gateways and key servers.
 * @throws TonyError HADOOP_CONF_INVALID
 */
export function namedServers(configuration: HadoopConfiguration): string[] {
  return [
    ...configuration.resourceManagers,
    ...configuration.webProxies,
    ...(parseKeyServers(configuration.keyProvider)?.addresses ?? []),
    ...fileSystemServers(configuration),
  ];
}

/**
 * Returns the base URLs of the NameNode web servers and gateways that the configuration names. If HDFS serves only HTTPS, the result omits
 * the NameNodes' HTTP ports: no NameNode listens there, so a job's program on the same host can.
 * @throws TonyError HADOOP_CONF_INVALID
 */
export function fileSystemServers(configuration: HadoopConfiguration): string[] {
  const policies = servesHttp(configuration) ? ['HTTP_ONLY', 'HTTPS_ONLY'] : ['HTTPS_ONLY'];
  const configurations = policies.map((policy) => configuration.with({ [HDFS_POLICY]: policy }));
  const addresses = namedFileSystems(configuration).flatMap((fileSystem) =>
    configurations.flatMap((each) => addressesOf(each, fileSystem)),
  );
  return [...allGateways(configuration), ...addresses];
}

/**
 * Returns true if the configuration names all servers of a URI's file systems. URIs that are not on HDFS have no such servers.
 * @throws TonyError HADOOP_CONF_INVALID
 */
export function isNamedFileSystem(configuration: HadoopConfiguration, uri: string): boolean {
  const location = locationOf(uri);
  if (location === null) {
    return true;
  }
  const named = new Set(fileSystemServers(configuration).map((server) => new URL(server).origin));
  const isNamed = (fileSystem: FileSystemName): boolean =>
    gatewayOf(configuration, fileSystem) !== null ||
    nameNodesOf(configuration, fileSystem).every((server) => named.has(new URL(server).origin));
  return fileSystemsOf(configuration, location).every(isNamed);
}

function namedFileSystems(configuration: HadoopConfiguration): FileSystemName[] {
  const isServed = (scheme: HdfsScheme): boolean => scheme !== 'webhdfs' || servesHttp(configuration);
  const uris = [
    ...FILE_SYSTEMS.map((key) => configuration.get(key) ?? ''),
    ...FILE_SYSTEM_PREFIXES.flatMap((prefix) => [...configuration.withPrefix(prefix).values()]),
  ].flatMap((value) => value.split(','));
  const services = configuration.list('dfs.nameservices').filter((authority) => isNameservice(configuration, authority));
  return [
    ...uris.flatMap((uri) => fileSystemOf(uri.trim()) ?? []),
    ...services.flatMap((authority) => SCHEMES.filter(isServed).map((scheme) => ({ scheme, authority }))),
    ...ADDRESSES.filter(([scheme]) => isServed(scheme)).flatMap(([scheme, key]) => {
      const authority = configuration.get(key);
      return authority === undefined || authority.startsWith('0.0.0.0') ? [] : [{ scheme, authority }];
    }),
  ];
}

/** Returns an empty list for an invalid address, because the property may be one that tony-ts does not need. */
function addressesOf(configuration: HadoopConfiguration, fileSystem: FileSystemName): readonly string[] {
  try {
    return nameNodesOf(configuration, fileSystem);
  } catch (error) {
    if (error instanceof TonyError) {
      return [];
    }
    throw error;
  }
}

/** Returns the file system of a URI with an authority, or null for any other text. */
function fileSystemOf(uri: string): FileSystemName | null {
  const [scheme = '', rest] = uri.split('://', 2);
  return rest === undefined ? null : parseFileSystem(`${scheme}://${rest.split('/', 1)[0]}`);
}
