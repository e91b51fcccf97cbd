import type { FrozenJob } from '../conf/job.ts';
import type { HadoopConfiguration } from '../hadoop/configuration/configuration.ts';
import { allGateways } from '../hadoop/configuration/file-systems/gateway.ts';
import { fileSystemsOf, locationOf } from '../hadoop/configuration/file-systems/hdfs-place.ts';
import { fileSystemUri, rpcNameOf } from '../hadoop/configuration/file-systems/name-nodes.ts';
import { TonyError } from '../platform/errors.ts';

/**
 * Returns the URIs of the servers from which a job needs delegation tokens: its file systems (`hdfs://ns1`) and the HttpFS gateways
 * (`webhdfs://host:port`).
 */
export function fileSystemsOfJob(frozen: Pick<FrozenJob, 'cluster'>, configuration: HadoopConfiguration): string[] {
  const { cluster, ...job } = frozen;
  const named = [...JSON.stringify(job).matchAll(/\b(?:hdfs|webhdfs|swebhdfs|viewfs):\/\/[^/"\s\\,]*/g)].map(([uri]) => uri);
  const standard = fileSystemUrisOf(configuration, configuration.defaultFs);
  const gateways = allGateways(configuration).map((address) => new URL(address));
  // HttpFS issues its own tokens. Knox, whose addresses have a path, uses `storage.credentials` instead.
  const issuers = gateways.filter(({ pathname }) => pathname === '/').map(webFileSystem);
  return [...new Set([...named.flatMap((uri) => namedFileSystems(configuration, uri)), ...standard, ...issuers])];
}

function webFileSystem({ protocol, hostname, port }: URL): string {
  return protocol === 'https:' ? `swebhdfs://${hostname}:${port || 443}` : `webhdfs://${hostname}:${port || 80}`;
}

/** Ignores text that looks like a URI but does not name a known file system. Commands and variables may contain any text. */
function namedFileSystems(configuration: HadoopConfiguration, uri: string): readonly string[] {
  try {
    return fileSystemUrisOf(configuration, uri);
  } catch (error) {
    if (error instanceof TonyError) {
      return [];
    }
    throw error;
  }
}

function fileSystemUrisOf(configuration: HadoopConfiguration, uri: string): readonly string[] {
  const location = locationOf(uri);
  const found = location === null ? [] : fileSystemsOf(configuration, location);
  return found.map((fileSystem) => fileSystemUri(rpcNameOf(configuration, fileSystem)));
}
