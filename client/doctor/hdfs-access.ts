import type { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { gatewayOf } from '../../hadoop/configuration/file-systems/gateway.ts';
import { fileSystemsOf, locationOf } from '../../hadoop/configuration/file-systems/hdfs-place.ts';
import { type FileSystemName, fileSystemUri, nameNodesOf } from '../../hadoop/configuration/file-systems/name-nodes.ts';

/** Maximum number of file systems to describe. A mount table may contain many more. */
const MAXIMUM = 6;

/**
 * Describes whether this client reaches HDFS through the NameNodes or through a gateway. For a mount table, describes each file system.
 * Returns '' if the default file system is not HDFS.
 */
export function hdfsAccessOf(configuration: HadoopConfiguration): string {
  const standard = locationOf(configuration.defaultFs);
  if (standard === null) {
    return '';
  }
  const all = new Map(fileSystemsOf(configuration, standard).map((fileSystem) => [fileSystemUri(fileSystem), fileSystem]));
  const parts = [...all].map(([uri, fileSystem]) => `${uri} ${accessTo(configuration, fileSystem)}`);
  const omitted = parts.length - MAXIMUM;
  return [...parts.slice(0, MAXIMUM), ...(omitted > 0 ? [`and ${omitted} more`] : [])].join('; ');
}

function accessTo(configuration: HadoopConfiguration, fileSystem: FileSystemName): string {
  const gateway = gatewayOf(configuration, fileSystem);
  return gateway === null ? `by WebHDFS at ${nameNodesOf(configuration, fileSystem).join(', ')}` : `through the gateway ${gateway}`;
}
