import { APPLICATION_TYPE, CONTAINER_LAYOUT, type FrozenJob, type Job, type Resource } from '../conf/job.ts';
import { roleTags } from '../conf/role-tags.ts';
import type { Site } from '../conf/site.ts';
import type { ApplicationSubmission } from '../hadoop/application-submission.ts';
import { launchCommand } from '../hadoop/launch-script.ts';
import { MASTER_NODE_FLAGS } from './bundles.ts';
import type { Cluster } from './cluster.ts';
import { freezeJob } from './freeze-job.ts';
import { historyPlace } from './history/history-place.ts';
import { createJobSecrets } from './job-secrets.ts';
import type { StagedParts } from './submit-parts.ts';

/** One more than one: a lost node takes no job with it, a defect does not go round for ever. */
const MASTER_ATTEMPTS = 2;

/** What containers read of a job whose parts lie, or will lie, on the cluster. */
export function frozenFor(
  job: Job,
  parts: StagedParts,
  { applicationId, submittedAt, cluster, site }: { applicationId: string; submittedAt: number; cluster: Cluster; site: Site },
): FrozenJob {
  const { user, root, home, configuration } = cluster;
  return freezeJob(job, {
    applicationId,
    user,
    submittedAt,
    root,
    home,
    history: historyPlace(site, cluster),
    data: parts.data,
    resources: [...(parts.source === null ? [] : [parts.source]), ...sharedParts(parts)],
    tensorboard: parts.tensorboard,
    cluster: { kind: 'yarn', hadoop: configuration.freeze() },
  });
}

/** What the ResourceManager is asked for. */
export function submissionFor(
  { applicationId, submittedAt, job }: FrozenJob,
  jobFile: Resource,
  parts: StagedParts,
): ApplicationSubmission {
  const node = parts.runtime === null ? 'node' : `${CONTAINER_LAYOUT.runtime}/bin/node`;
  return {
    applicationId,
    name: job.name,
    type: APPLICATION_TYPE,
    queue: job.queue,
    tags: ['tony-ts', ...roleTags(job), ...job.tags],
    memoryMb: job.master.memoryMb,
    vcores: job.master.vcores,
    nodeLabel: job.master.nodeLabel,
    maxAttempts: MASTER_ATTEMPTS,
    keepContainers: true,
    command: launchCommand([node, ...MASTER_NODE_FLAGS, `${CONTAINER_LAYOUT.bundles}/application-master.mjs`], {
      stdout: 'tony.log',
      // YARN quotes the end of this file in its diagnostics.
      stderr: 'stderr',
    }),
    // `node` of a job with runtime `system` may lie elsewhere than the nodes' shells look.
    environment: job.env.PATH === undefined ? {} : { PATH: job.env.PATH },
    resources: [jobFile, ...sharedParts(parts)],
    secrets: new Map([...createJobSecrets(submittedAt)].map(([name, secret]) => [name, secret.reveal()])),
    acls: job.acls,
  };
}

/** What the ApplicationMaster gets as well. */
function sharedParts({ bundles, runtime }: StagedParts): Resource[] {
  return [bundles, ...(runtime === null ? [] : [runtime])];
}
