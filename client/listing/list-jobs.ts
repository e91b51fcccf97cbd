import type { ListedJob } from '../../conf/status/job-info.ts';
import { closing } from '../../platform/async/closing.ts';
import { checkOptions, type OptionNames, pickOptions } from '../../platform/check-options.ts';
import { TonyError } from '../../platform/errors.ts';
import { CLUSTER_OPTIONS, type ClusterOptions } from '../cluster/cluster.ts';
import { suggestLocal } from '../cluster/without-cluster.ts';
import { type ListOptions, openLister } from './job-lister.ts';
import type { LocalListOptions } from './local-jobs.ts';

const LIST_OPTIONS: OptionNames<ListOptions> = {
  ...CLUSTER_OPTIONS,
  local: true,
  localRoot: true,
  user: true,
  ended: true,
  name: true,
  queue: true,
  state: true,
  limit: true,
  ask: true,
};

/**
 * Lists local jobs or a cluster's jobs, newest first.
 * @throws TonyError USAGE if the queue does not exist or options contradict each other, HADOOP_CONF_NOT_FOUND, HADOOP_CONF_INVALID,
 *   RM_UNREACHABLE, KERBEROS_*
 */
export async function listJobs(options: ListOptions = {}): Promise<ListedJob[]> {
  checkOptions('listJobs', options, LIST_OPTIONS);
  if (options.local === true) {
    if (options.user !== undefined) {
      throw new TonyError('USAGE', 'listJobs accepts either local or user, because local jobs are always your own.');
    }
    const { LOCAL_LIST_OPTIONS, listLocalJobs } = await import('./local-jobs.ts');
    return listLocalJobs(pickOptions<LocalListOptions>(options, LOCAL_LIST_OPTIONS));
  }
  return closing(await openLister(pickOptions<ClusterOptions>(options, CLUSTER_OPTIONS)).catch(suggestLocal), (lister) =>
    lister.list(options),
  );
}
