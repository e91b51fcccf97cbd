import { isEndState } from '../../../conf/status/status.ts';
import { TonyError } from '../../../platform/errors.ts';
import { ifCode } from '../../../platform/if-code.ts';
import type { JobConnection } from '../../connections/job-connection.ts';
import { isLocalId } from '../../files/local-layout.ts';
import type { ClusterArguments } from './shared-options.ts';

/** Number of jobs that an error lists. */
const MOST_LISTED = 5;

/**
 * Connects to the job with this ID or name.
 * @throws TonyError USAGE if no job or several jobs have the name, or as `connectJob`
 */
export async function connectNamed(job: string, cluster: ClusterArguments): Promise<JobConnection> {
  const { connectJob } = await import('../../connections/connect-job.ts');
  return connectJob(await jobId(job, cluster), cluster);
}

/**
 * Returns the ID of the user's job with this name, which may be on the cluster or on this machine. A running job takes precedence over
 * jobs that have ended. Returns an ID as it is.
 * @throws TonyError USAGE if no job or several jobs have the name
 */
export async function jobId(job: string, cluster: ClusterArguments): Promise<string> {
  if (isLocalId(job) || job.startsWith('application_')) {
    return job;
  }
  const { listJobs } = await import('../../listing/list-jobs.ts');
  const [onCluster, local] = await Promise.all([
    listJobs({ ...cluster, name: job, ended: true }).catch(ifCode('HADOOP_CONF_NOT_FOUND', null)),
    listJobs({ local: true, name: job, ended: true }),
  ]);
  const named = [...(onCluster ?? []), ...local].filter(({ name }) => name === job);
  const live = named.filter(({ state }) => !isEndState(state));
  const [found, ...others] = live.length > 0 ? live : named;
  if (found === undefined) {
    const lists =
      onCluster === null
        ? '`tony-ts list --local --all` lists your jobs on this machine.'
        : '`tony-ts list --all` lists your jobs on the cluster, and `tony-ts list --local --all` those on this machine.';
    throw new TonyError('USAGE', `You have no job with the ID or name ${job}.`, {
      hint: `${lists} IDs look like application_1795225023264_0001 or local_1795225023264_0001.`,
    });
  }
  if (others.length > 0) {
    const ids = [found, ...others].slice(0, MOST_LISTED).map(({ id, state }) => `${id} (${state})`);
    const rest = others.length + 1 - ids.length;
    throw new TonyError('USAGE', `${others.length + 1} of your jobs have the name ${job}.`, {
      hint: `Pass an ID, newest first: ${ids.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}.`,
    });
  }
  return found.id;
}
