import { TonyError } from '../../conf/errors.ts';
import { hadoopUser } from '../../hadoop/configuration.ts';
import { type ClusterOptions, openCluster } from '../cluster.ts';
import { localRoot } from '../local-folder.ts';
import { ClusterHistory } from './cluster-history.ts';
import type { HistoryStore, JobPlace } from './history-store.ts';
import { LocalHistory } from './local-history.ts';

const AT_ONCE = 16;

export interface StoreOptions extends ClusterOptions {
  /** This machine's jobs instead of a cluster's. */
  readonly local: boolean;
  /** Folder of local jobs; default ~/.tony-ts/local. */
  readonly localRoot?: string | undefined;
}

/** @throws TonyError NO_HADOOP_CONF, HADOOP_CONF_INVALID, CLUSTER_SECURE, SITE_INVALID, HDFS_UNREACHABLE */
export async function openHistoryStore(options: StoreOptions): Promise<HistoryStore> {
  if (options.local) return new LocalHistory(options.localRoot ?? localRoot(options.environment), hadoopUser(options.environment));
  const cluster = await openCluster(options);
  try {
    return await ClusterHistory.open(cluster);
  } catch (error) {
    cluster.close();
    throw error;
  }
}

/**
 * The history of a job by its id alone: one's own, or that of the user who is named, or whoever's it is.
 *
 * @throws TonyError HISTORY_UNKNOWN when there is none that is to be seen
 */
export async function findPlace(store: HistoryStore, applicationId: string, user?: string): Promise<JobPlace> {
  const own = await store.place(user ?? store.user, applicationId);
  if (own !== null) return own;
  const others = user === undefined ? (await store.users()).filter((each) => each !== store.user) : [];
  for (let at = 0; at < others.length; at += AT_ONCE) {
    const found = await Promise.all(others.slice(at, at + AT_ONCE).map((each) => store.place(each, applicationId).catch(() => null)));
    const place = found.find((each) => each !== null);
    if (place) return place;
  }
  const whose = user === undefined || user === store.user ? '' : ` of ${user}`;
  throw new TonyError('HISTORY_UNKNOWN', `There is no history of ${applicationId}${whose}. ${store.limits}`.trim());
}
