import { APPLICATION_TYPE, CONTAINER_LAYOUT, type FrozenJob, type Job, type Resource } from '../../conf/job.ts';
import type { SiteConfig } from '../../conf/site.ts';
import { dockerEnvironment } from '../../conf/values/docker.ts';
import type { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import type { Token } from '../../hadoop/rpc/credentials.ts';
import type { ApplicationSubmission } from '../../hadoop/yarn/application-submission.ts';
import { launchCommand } from '../../hadoop/yarn/launch-script.ts';
import { applicationTags } from '../cluster/application-tags.ts';
import type { HadoopCluster } from '../cluster/cluster.ts';
import { MASTER_NODE_FLAGS } from '../job/bundles.ts';
import { freezeJob } from '../job/freeze-job.ts';
import { createJobSecrets } from '../job/job-secrets.ts';
import { historyPlace } from '../records/history-place.ts';
import type { StagedParts } from './submit-parts.ts';

/**
 * Maximum number of attempts of the ApplicationMaster. With two attempts, the job survives the loss of a node, but a crashing
 * ApplicationMaster does not restart forever.
 */
const MASTER_ATTEMPTS = 2;

/** Returns the content of job.json as an object. */
export function frozenFor(
  job: Job,
  parts: StagedParts,
  { applicationId, submittedAt, cluster, site }: { applicationId: string; submittedAt: number; cluster: HadoopCluster; site: SiteConfig },
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

export function jobText(frozen: FrozenJob): string {
  return JSON.stringify(frozen);
}

/** Returns the authorities of all HDFS clusters that a job uses. The job needs one delegation token for each. */
export function authoritiesOf(frozen: FrozenJob, { defaultFs }: HadoopConfiguration): string[] {
  const named = [...jobText(frozen).matchAll(/\bhdfs:\/\/([^/"\s\\,]+)/g)].map(([, authority = '']) => authority);
  return [...new Set([...named, ...(defaultFs.startsWith('hdfs://') ? [defaultFs.slice('hdfs://'.length)] : [])])];
}

/**
 * Returns the request that submits the application to the ResourceManager.
 * @param jobFile the staged job.json
 */
export function submissionFor(frozen: FrozenJob, jobFile: Resource, parts: StagedParts, tokens: readonly Token[]): ApplicationSubmission {
  const { applicationId, submittedAt, job } = frozen;
  const node = parts.runtime === null ? 'node' : `${CONTAINER_LAYOUT.runtime}/bin/node`;
  return {
    applicationId,
    name: job.name,
    type: APPLICATION_TYPE,
    queue: job.queue,
    tags: applicationTags(job),
    memoryMb: job.master.memoryMb,
    vcores: job.master.vcores,
    nodeLabel: job.master.nodeLabel,
    priority: job.priority,
    maxAttempts: MASTER_ATTEMPTS,
    failureWindowMs: job.master.failureWindowMs,
    keepContainers: true,
    command: launchCommand([node, ...MASTER_NODE_FLAGS, `${CONTAINER_LAYOUT.bundles}/application-master.mjs`], {
      stdout: 'tony.log',
      // YARN includes the end of this file in its diagnostics.
      stderr: 'stderr',
    }),
    // With `runtime: system`, the job's PATH may be necessary to find `node`.
    environment: { ...(job.env.PATH !== undefined && { PATH: job.env.PATH }), ...job.master.env, ...dockerEnvironment(job.master.docker) },
    resources: [jobFile, ...sharedParts(parts)],
    tokens,
    secrets: new Map([...createJobSecrets(submittedAt, jobText(frozen))].map(([name, secret]) => [name, secret.reveal()])),
    acls: job.acls,
  };
}

function sharedParts({ bundles, runtime }: StagedParts): Resource[] {
  return [bundles, ...(runtime === null ? [] : [runtime])];
}
