import type { Job } from '../../conf/job.ts';
import { type LoadOptions, loadJob as readJob } from '../../conf/resolve/load-job.ts';
import { checkOptions, type OptionNames, pickOptions } from '../../platform/check-options.ts';
import { CLUSTER_OPTIONS, type ClusterOptions } from '../cluster/cluster.ts';
import { siteFor } from '../cluster/site-for.ts';
import { namesCluster } from '../cluster/without-cluster.ts';

export interface LoadJobOptions extends LoadOptions, ClusterOptions {
  /** Whether the job will run on this machine, where site files have no effect. The default is false. */
  readonly local?: boolean;
}

const LOAD_JOB_OPTIONS: OptionNames<LoadJobOptions> = { ...CLUSTER_OPTIONS, set: true, site: true, onNote: true, local: true };

/**
 * Reads and validates a job.yaml, with the defaults and final values of the cluster's site file. If no cluster is configured, reads no site
 * file, because such a job can only run on this machine.
 * @param options.site a site configuration to use instead of the cluster's, or null for none. The function then needs no cluster.
 * @throws TonyError JOB_UNREADABLE if the file cannot be read; JOB_INVALID with the line, the column and the expected value of every
 *   mistake; SITE_INVALID, SITE_UNREADABLE, HADOOP_CONF_NOT_FOUND for a wrong HADOOP_CONF_DIR, HADOOP_CONF_INVALID, KERBEROS_*,
 *   RM_UNREACHABLE, HDFS_UNREACHABLE
 */
export async function loadJob(path: string, options: LoadJobOptions = {}): Promise<Job> {
  checkOptions('loadJob', options, LOAD_JOB_OPTIONS);
  const { set, onNote, local = !namesCluster(options) } = options;
  const site = options.site === undefined ? await siteFor({ ...pickOptions(options, CLUSTER_OPTIONS), local }) : options.site;
  return await readJob(path, { site, ...(set !== undefined && { set }), ...(onNote !== undefined && { onNote }) });
}
