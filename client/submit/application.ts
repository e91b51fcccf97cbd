import { APPLICATION_TYPE, CONTAINER_LAYOUT, type FrozenJob, type Job } from '../../conf/job.ts';
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
import { MASTER_ATTEMPTS, MASTER_NODE_FLAGS } from '../job/bundles.ts';
import { freezeJob } from '../job/freeze-job.ts';
import { mapRoles } from '../job/job-files.ts';
import { createJobSecrets } from '../job/job-secrets.ts';
import type { HistoryPlace } from '../records/history-place.ts';
import type { StagedParts } from './parts.ts';

interface FrozenJobOptions {
  readonly jobId: string;
  readonly submittedAt: number;
  readonly cluster: HadoopCluster;
  readonly history: HistoryPlace;
  /** Kerberos principal of the job's keytab, or null if the job has no keytab. */
  readonly principal: string | null;
  /** See `YarnCluster`. */
  readonly masterReplacementMs: number | undefined;
}

/** Returns the content of job.json as an object. */
export function frozenOf(
  job: Job,
  parts: StagedParts,
  { jobId, submittedAt, cluster, history, principal, masterReplacementMs }: FrozenJobOptions,
): FrozenJob {
  const { user, root, home, configuration } = cluster;
  const readable = daemonResource(configuration);
  return freezeJob(job, {
    jobId,
    user,
    submittedAt,
    root,
    home,
    history,
    data: parts.data,
    principal,
    resources: [...(parts.source === null ? [] : [parts.source]), ...sharedParts(parts)].map(readable),
    files: mapRoles(parts.files, readable),
    tensorboard: parts.tensorboard && readable(parts.tensorboard),
    pythonEnvironment: parts.pythonEnvironment && readable(parts.pythonEnvironment),
    cluster: { kind: 'yarn', hadoop: configuration.freeze(), masterReplacementMs },
    configuration,
  });
}

export function jobText(frozen: FrozenJob): string {
  return JSON.stringify(frozen);
}

export interface ApplicationSecrets {
  readonly tokens: readonly Token[];
  /** See `ApplicationSubmission`. */
  readonly keepTokens: boolean;
  /** Object stores that the job uses, or null if the job contains no s3:// URI. */
  readonly s3: JobConnections | null;
  readonly configuration: HadoopConfiguration;
}

/**
 * Returns the part of a submission that contains the ApplicationMaster's command, files and secrets.
 * @param text content of job.json
 * @param own the staged files that only the ApplicationMaster receives: job.json and, if the job has one, the keytab
 */
export function masterProgram(
  text: string,
  own: readonly LocalResource[],
  parts: StagedParts,
  { tokens, keepTokens, s3, configuration }: ApplicationSecrets,
  flags: readonly string[] = [],
) {
  const node = parts.runtime === null ? 'node' : `${CONTAINER_LAYOUT.runtime}/bin/node`;
  return {
    maxAttempts: MASTER_ATTEMPTS,
    command: launchCommand([node, ...MASTER_NODE_FLAGS, `${CONTAINER_LAYOUT.bundles}/application-master.mjs`, ...flags], {
      stdout: 'tony.log',
      // YARN includes the end of this file in its diagnostics.
      stderr: 'stderr',
    }),
    resources: [...own, ...sharedParts(parts)].map(daemonResource(configuration)),
    tokens,
    keepTokens,
    secrets: new Map([...createJobSecrets(Date.now(), text, s3)].map(([name, secret]) => [name, secret.reveal()])),
  };
}

/**
 * Returns the request that submits a job to the ResourceManager.
 * @param own see `masterProgram`
 */
export function applicationOf(
  frozen: FrozenJob,
  own: readonly LocalResource[],
  parts: StagedParts,
  secrets: ApplicationSecrets,
): ApplicationSubmission {
  const { jobId, job } = frozen;
  return {
    applicationId: jobId,
    name: job.name,
    type: APPLICATION_TYPE,
    queue: job.queue,
    tags: applicationTags(job),
    memoryMb: job.master.resources.memoryMb,
    vcores: job.master.resources.vcores,
    nodeLabel: job.master.nodeLabel,
    priority: job.priority,
    failureWindowMs: job.master.failureWindowMs,
    keepContainers: true,
    environment: {
      // With `runtime: system`, `node` may be installed only in a folder on the job's PATH.
      ...(parts.runtime === null && job.env.PATH !== undefined && { PATH: job.env.PATH }),
      ...job.master.env,
      ...dockerEnvironment(job.master.docker),
    },
    acls: job.acls,
    ...masterProgram(jobText(frozen), own, parts, secrets),
  };
}

/** Returns a function that gives a resource a URI that YARN's daemons can read. */
export function daemonResource(configuration: HadoopConfiguration): (resource: LocalResource) => LocalResource {
  return (resource) => ({ ...resource, uri: daemonUri(configuration, resource.uri) });
}

export function sharedParts({ bundles, runtime }: StagedParts): LocalResource[] {
  return [bundles, ...(runtime === null ? [] : [runtime])];
}
