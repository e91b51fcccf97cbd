import { APPLICATION_TYPE, CONTAINER_LAYOUT, type FrozenJob, type Job } from '../../conf/job.ts';
import type { SiteConfig } from '../../conf/resolve/site.ts';
import { dockerEnvironment } from '../../conf/values/docker.ts';
import type { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { daemonUri } from '../../hadoop/configuration/file-systems/hdfs-place.ts';
import type { Token } from '../../hadoop/rpc/credentials.ts';
import type { ApplicationSubmission } from '../../hadoop/yarn/application-submission.ts';
import { launchCommand } from '../../hadoop/yarn/launch-script.ts';
import type { LocalResource } from '../../hadoop/yarn/local-resource.ts';
import type { JobConnections } from '../../storage/s3/s3-connection.ts';
import { applicationTags } from '../cluster/application-tags.ts';
import type { HadoopCluster } from '../cluster/cluster.ts';
import { MASTER_NODE_FLAGS } from '../job/bundles.ts';
import { freezeJob } from '../job/freeze-job.ts';
import { mapRoles } from '../job/job-files.ts';
import { createJobSecrets } from '../job/job-secrets.ts';
import { MASTER_ATTEMPTS } from '../job/master-attempts.ts';
import { historyPlace } from '../records/history-place.ts';
import type { StagedParts } from './submit-parts.ts';

interface FrozenJobOptions {
  readonly applicationId: string;
  readonly submittedAt: number;
  readonly cluster: HadoopCluster;
  readonly site: SiteConfig;
  /** Kerberos principal of the job's keytab, or null if the job has no keytab. */
  readonly principal: string | null;
  /** See `YarnCluster`. */
  readonly masterReplacementMs: number | undefined;
}

/** Returns the content of job.json as an object. */
export function frozenFor(
  job: Job,
  parts: StagedParts,
  { applicationId, submittedAt, cluster, site, principal, masterReplacementMs }: FrozenJobOptions,
): FrozenJob {
  const { user, root, home, configuration } = cluster;
  const readable = (resource: LocalResource): LocalResource => ({ ...resource, uri: daemonUri(configuration, resource.uri) });
  return freezeJob(job, {
    applicationId,
    user,
    submittedAt,
    root,
    home,
    history: historyPlace(site, cluster),
    data: parts.data,
    principal,
    resources: [...(parts.source === null ? [] : [parts.source]), ...sharedParts(parts)].map(readable),
    files: mapRoles(parts.files, readable),
    tensorboard: parts.tensorboard && readable(parts.tensorboard),
    pythonEnvironment: parts.pythonEnvironment && readable(parts.pythonEnvironment),
    cluster: { kind: 'yarn', hadoop: configuration.freeze(), masterReplacementMs },
  });
}

export function jobText(frozen: FrozenJob): string {
  return JSON.stringify(frozen);
}

export interface SubmissionParts {
  readonly tokens: readonly Token[];
  /** See `ApplicationSubmission`. */
  readonly keepTokens: boolean;
  /** Object stores that the job uses, or null if the job contains no s3:// URI. */
  readonly s3: JobConnections | null;
  readonly configuration: HadoopConfiguration;
}

/**
 * Returns the request that submits the application to the ResourceManager.
 * @param own the staged files that only the ApplicationMaster receives: job.json and, if the job has one, the keytab
 */
export function submissionFor(
  frozen: FrozenJob,
  own: readonly LocalResource[],
  parts: StagedParts,
  { tokens, keepTokens, s3, configuration }: SubmissionParts,
): ApplicationSubmission {
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
    // With `runtime: system`, `node` may be installed only in a folder on the job's PATH.
    environment: { ...(job.env.PATH !== undefined && { PATH: job.env.PATH }), ...job.master.env, ...dockerEnvironment(job.master.docker) },
    resources: [...own, ...sharedParts(parts)].map((resource) => ({ ...resource, uri: daemonUri(configuration, resource.uri) })),
    tokens,
    keepTokens,
    secrets: new Map([...createJobSecrets(submittedAt, jobText(frozen), s3)].map(([name, secret]) => [name, secret.reveal()])),
    acls: job.acls,
  };
}

function sharedParts({ bundles, runtime }: StagedParts): LocalResource[] {
  return [bundles, ...(runtime === null ? [] : [runtime])];
}
