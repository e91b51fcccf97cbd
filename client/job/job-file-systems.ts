import type { Job } from '../../conf/job.ts';
import type { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { allGateways } from '../../hadoop/configuration/file-systems/gateway.ts';
import { fileSystemsOf, locationOf } from '../../hadoop/configuration/file-systems/hdfs-place.ts';
import { fileSystemUri, rpcNameOf } from '../../hadoop/configuration/file-systems/name-nodes.ts';
import { isNamedFileSystem } from '../../hadoop/configuration/file-systems/named-servers.ts';
import { TonyError } from '../../platform/errors.ts';
import { firstNames } from '../../platform/text/first-names.ts';
import { textsIn } from './job-texts.ts';

/** Maximum number of URIs in an error message. */
const MOST_NAMES = 3;

/**
 * Returns the URIs of the servers from which a job needs delegation tokens: its file systems (`hdfs://ns1`) and the HttpFS gateways
 * (`webhdfs://host:port`). Omits file systems that the configuration does not name.
 * @param texts the job's texts. Commands and variables may contain URIs among other text.
 */
export function fileSystemsIn(texts: readonly string[], configuration: HadoopConfiguration): string[] {
  const named = texts.flatMap((text) => text.match(/\b(?:hdfs|webhdfs|swebhdfs|viewfs):\/\/[^/"\s\\,]*/g) ?? []);
  const standard = fileSystemUrisOf(configuration, configuration.defaultFs);
  const gateways = allGateways(configuration).map((address) => new URL(address));
  // HttpFS issues its own tokens. Knox, whose addresses have a path, uses `storage.credentials` instead.
  const issuers = gateways.filter(({ pathname }) => pathname === '/').map(webFileSystem);
  return [...new Set([...named.flatMap((uri) => knownFileSystems(configuration, uri)), ...standard, ...issuers])];
}

/**
 * Rejects a job with a URI on a file system that the configuration does not name, if the cluster uses Kerberos: the file system would
 * receive the user's identity. Ignores URIs within longer texts, such as commands.
 * @throws TonyError SERVER_DENIED
 */
export function refuseUnknownFileSystems(job: Job, configuration: HadoopConfiguration): void {
  if (!configuration.secure) {
    return;
  }
  const unknown = [
    ...new Set(textsIn(job).filter((uri) => isHdfsUri(uri) && ifKnown(() => !isNamedFileSystem(configuration, uri), false))),
  ];
  if (unknown.length > 0) {
    const isOne = unknown.length === 1;
    throw new TonyError(
      'SERVER_DENIED',
      `The job uses ${firstNames(unknown, MOST_NAMES)}, but the Hadoop configuration does not name ${isOne ? 'this file system' : 'these file systems'}. A server that receives your Kerberos identity could act as you.`,
    );
  }
}

function isHdfsUri(text: string): boolean {
  return /^(?:hdfs|webhdfs|swebhdfs|viewfs):\/\/[^/\s]/i.test(text);
}

function webFileSystem({ protocol, hostname, port }: URL): string {
  return protocol === 'https:' ? `swebhdfs://${hostname}:${port || 443}` : `webhdfs://${hostname}:${port || 80}`;
}

function knownFileSystems(configuration: HadoopConfiguration, uri: string): readonly string[] {
  return ifKnown(() => (configuration.secure && !isNamedFileSystem(configuration, uri) ? [] : fileSystemUrisOf(configuration, uri)), []);
}

/** Ignores text that looks like a URI but does not name a file system. Commands and variables may contain any text. */
function ifKnown<T>(find: () => T, otherwise: T): T {
  try {
    return find();
  } catch (error) {
    if (error instanceof TonyError) {
      return otherwise;
    }
    throw error;
  }
}

function fileSystemUrisOf(configuration: HadoopConfiguration, uri: string): readonly string[] {
  const location = locationOf(uri);
  const found = location === null ? [] : fileSystemsOf(configuration, location);
  return found.map((fileSystem) => fileSystemUri(rpcNameOf(configuration, fileSystem)));
}
