import type { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { ifCode } from '../../platform/if-code.ts';
import { readIfStored } from '../../storage/read-if-stored.ts';
import { s3Finder } from '../../storage/s3/find-s3-connection.ts';
import type { FindS3Connection } from '../../storage/s3/s3-connection.ts';
import { openCluster, readConfiguration } from './cluster.ts';

/**
 * Finds a user's object stores for local jobs, without a cluster. If HADOOP_CONF_DIR is set, also uses Hadoop's properties and credential
 * providers. Contacts HDFS only to read a credential provider that is stored there.
 */
export function localObjectStores(environment: NodeJS.ProcessEnv): FindS3Connection {
  const open = async (): Promise<FindS3Connection> => {
    const configuration = await configurationIfAny(environment);
    return s3Finder({ environment, hadoop: configuration && { configuration, readHdfs: (uri) => readHdfs(environment, uri) } });
  };
  let opened: Promise<FindS3Connection> | undefined;
  return async (bucket) => {
    opened ??= open();
    return (await opened)(bucket);
  };
}

async function configurationIfAny(environment: NodeJS.ProcessEnv): Promise<HadoopConfiguration | null> {
  return readConfiguration({ env: environment }).catch(ifCode('HADOOP_CONF_NOT_FOUND', null));
}

async function readHdfs(environment: NodeJS.ProcessEnv, uri: string): Promise<Buffer | null> {
  const { storage } = await openCluster({ env: environment });
  try {
    return await readIfStored(storage, uri);
  } finally {
    storage.close();
  }
}
