import { hadoopUser } from '../../hadoop/configuration/configuration.ts';
import { checkOptions, type OptionNames } from '../../platform/check-options.ts';
import { CLUSTER_OPTIONS, type ClusterOptions, openCluster } from '../cluster/cluster.ts';
import { suggestLocal } from '../cluster/without-cluster.ts';
import { ClusterHistory } from '../records/cluster-history.ts';
import type { HistoryStore } from '../records/history-store.ts';
import { checkLocalRoot, localRoot } from '../staging/local-folder.ts';
import { LocalHistory } from './local-history.ts';

export interface StoreOptions extends ClusterOptions {
  readonly local: boolean;
  /** Folder for local jobs. Default: ~/.tony-ts/local. */
  readonly localRoot?: string | undefined;
}

export const STORE_OPTIONS: OptionNames<StoreOptions> = { ...CLUSTER_OPTIONS, local: true, localRoot: true };

/** @throws TonyError HADOOP_CONF_NOT_FOUND, HADOOP_CONF_INVALID, KERBEROS_*, SITE_INVALID, HDFS_UNREACHABLE */
export async function openHistoryStore(options: StoreOptions): Promise<HistoryStore> {
  checkOptions('openHistoryStore', options, STORE_OPTIONS);
  if (options.local) {
    const root = options.localRoot ?? localRoot(options.env);
    await checkLocalRoot(root);
    return new LocalHistory(root, hadoopUser(options.env));
  }
  const cluster = await openCluster(options).catch(suggestLocal);
  try {
    return await ClusterHistory.open(cluster);
  } catch (error) {
    cluster.close();
    throw error;
  }
}
