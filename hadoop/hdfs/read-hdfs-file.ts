import { TonyError } from '../../platform/errors.ts';
import type { HadoopConfiguration } from '../configuration/configuration.ts';
import { locationOf } from '../configuration/hdfs-place.ts';
import { FileSystems } from './file-systems.ts';

/** A cluster, and the name of its user. */
export interface HdfsUser {
  readonly configuration: HadoopConfiguration;
  readonly user: string;
}

/**
 * Reads a whole file over separate connections; returns null if the file does not exist.
 * @param uri an hdfs://, webhdfs://, swebhdfs:// or viewfs:// URI
 * @throws TonyError HDFS_UNREACHABLE, ACCESS_DENIED, STORAGE_REFUSED, HADOOP_CONF_INVALID, KERBEROS_*
 */
export async function readHdfsFile({ configuration, user }: HdfsUser, uri: string): Promise<Buffer | null> {
  const location = locationOf(uri);
  const fileSystems = new FileSystems(configuration, user);
  try {
    const target = location === null ? null : fileSystems.locate(location).target;
    return target === null ? null : await target.fileSystem.read(target.path);
  } catch (error) {
    if (error instanceof TonyError && error.code === 'NOT_FOUND') {
      return null;
    }
    throw error;
  } finally {
    fileSystems.close();
  }
}
