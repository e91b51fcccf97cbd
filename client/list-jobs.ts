import { APPLICATION_TYPE } from '../conf/job.ts';
import { ResourceManager } from '../hadoop/resource-manager.ts';
import { type Application, LIVE_STATES } from '../hadoop/resource-manager-answers.ts';
import { type ClusterOptions, openCluster } from './cluster.ts';

export interface ListOptions extends ClusterOptions {
  /** Whose jobs; null is everybody's; default one's own. */
  readonly user?: string | null | undefined;
  /** Also those that have ended and that the ResourceManager still knows; default only those that are not over. */
  readonly ended?: boolean;
  /** Only jobs with this in their name. */
  readonly name?: string | undefined;
  readonly queue?: string | undefined;
}

/**
 * The jobs of a cluster as its ResourceManager knows them, the newest first.
 *
 * @throws TonyError NO_HADOOP_CONF, HADOOP_CONF_INVALID, RM_UNREACHABLE, CLUSTER_SECURE
 */
export async function listJobs(options: ListOptions = {}): Promise<Application[]> {
  const cluster = await openCluster(options);
  const resourceManager = ResourceManager.of(cluster.configuration, cluster.user);
  try {
    const user = options.user === undefined ? cluster.user : options.user;
    const applications = await resourceManager.applications({
      types: [APPLICATION_TYPE],
      ...(user === null ? {} : { user }),
      ...(options.ended === true ? {} : { states: LIVE_STATES }),
    });
    const { name = '', queue } = options;
    return applications
      .filter((application) => application.name.includes(name) && (queue === undefined || isQueue(application.queue, queue)))
      .sort((a, b) => b.startedAt - a.startedAt || (a.id < b.id ? 1 : -1));
  } finally {
    resourceManager.close();
    cluster.close();
  }
}

/** The ResourceManager names queues by their last part or by their whole path. */
function isQueue(actual: string, wanted: string): boolean {
  return actual === wanted || actual === `root.${wanted}` || actual.endsWith(`.${wanted}`);
}
