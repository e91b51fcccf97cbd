import { APPLICATION_TYPE, CONTAINER_LAYOUT, type FrozenJob, type Job, type Resource } from '../../conf/job.ts';
import type { SiteConfig } from '../../conf/site.ts';
import { dockerEnvironment } from '../../conf/values/docker.ts';
import type { HadoopConfiguration } from '../../hadoop/configuration/configuration.ts';
import { allGateways } from '../../hadoop/configuration/gateway.ts';
import { daemonUri, fileSystemsOf, locationOf } from '../../hadoop/configuration/hdfs-place.ts';
import { fileSystemUri, rpcNameOf } from '../../hadoop/configuration/name-nodes.ts';
import type { Token } from '../../hadoop/rpc/credentials.ts';
import type { ApplicationSubmission } from '../../hadoop/yarn/application-submission.ts';
import { launchCommand } from '../../hadoop/yarn/launch-script.ts';
import { TonyError } from '../../platform/errors.ts';
import type { S3Connection } from '../../storage/s3/s3-connection.ts';
import { applicationTags } from '../cluster/application-tags.ts';
import type { HadoopCluster } from '../cluster/cluster.ts';
import { MASTER_NODE_FLAGS } from '../job/bundles.ts';
import { freezeJob } from '../job/freeze-job.ts';
import { mapRoles } from '../job/job-files.ts';
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
  const readable = (resource: Resource): Resource => ({ ...resource, uri: daemonUri(configuration, resource.uri) });
  return freezeJob(job, {
    applicationId,
    user,
    submittedAt,
    root,
    home,
    history: historyPlace(site, cluster),
    data: parts.data,
    resources: [...(parts.source === null ? [] : [parts.source]), ...sharedParts(parts)].map(readable),
    files: mapRoles(parts.files, readable),
    tensorboard: parts.tensorboard && readable(parts.tensorboard),
    cluster: { kind: 'yarn', hadoop: configuration.freeze() },
  });
}

export function jobText(frozen: FrozenJob): string {
  return JSON.stringify(frozen);
}

/**
 * Returns the file systems that a job uses, such as `hdfs://ns1`, and the HttpFS gateways, as `webhdfs://host:port`. The job needs one
 * delegation token for each.
 */
export function fileSystemsOfJob(frozen: FrozenJob, configuration: HadoopConfiguration): string[] {
  const { cluster, ...job } = frozen;
  const named = [...JSON.stringify(job).matchAll(/\b(?:hdfs|webhdfs|swebhdfs|viewfs):\/\/[^/"\s\\,]*/g)].map(([uri]) => uri);
  const standard = fileSystemUrisOf(configuration, configuration.defaultFs);
  const gateways = allGateways(configuration).map((address) => new URL(address));
  // HttpFS issues its own tokens. An address with a path belongs to a Knox topology, to which containers authenticate with
  // `storage.credentials`.
  const issuers = gateways.filter(({ pathname }) => pathname === '/').map(webFileSystem);
  return [...new Set([...named.flatMap((uri) => namedFileSystems(configuration, uri)), ...standard, ...issuers])];
}

function webFileSystem({ protocol, hostname, port }: URL): string {
  return protocol === 'https:' ? `swebhdfs://${hostname}:${port || 443}` : `webhdfs://${hostname}:${port || 80}`;
}

/** Ignores URIs that do not name a known file system, because a command or variable may contain any text. */
function namedFileSystems(configuration: HadoopConfiguration, uri: string): readonly string[] {
  try {
    return fileSystemUrisOf(configuration, uri);
  } catch (error) {
    if (error instanceof TonyError) {
      return [];
    }
    throw error;
  }
}

function fileSystemUrisOf(configuration: HadoopConfiguration, uri: string): readonly string[] {
  const location = locationOf(uri);
  const found = location === null ? [] : fileSystemsOf(configuration, location);
  return found.map((fileSystem) => fileSystemUri(rpcNameOf(configuration, fileSystem)));
}

export interface SubmissionParts {
  readonly tokens: readonly Token[];
  /** The object store that the job uses; null if the job names no s3:// URI. */
  readonly s3: S3Connection | null;
  readonly configuration: HadoopConfiguration;
}

/**
 * Returns the request that submits the application to the ResourceManager.
 * @param jobFile the staged job.json
 */
export function submissionFor(
  frozen: FrozenJob,
  jobFile: Resource,
  parts: StagedParts,
  { tokens, s3, configuration }: SubmissionParts,
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
    // With `runtime: system`, the job's PATH may be necessary to find `node`.
    environment: { ...(job.env.PATH !== undefined && { PATH: job.env.PATH }), ...job.master.env, ...dockerEnvironment(job.master.docker) },
    resources: [jobFile, ...sharedParts(parts)].map((resource) => ({ ...resource, uri: daemonUri(configuration, resource.uri) })),
    tokens,
    secrets: new Map([...createJobSecrets(submittedAt, jobText(frozen), s3)].map(([name, secret]) => [name, secret.reveal()])),
    acls: job.acls,
  };
}

function sharedParts({ bundles, runtime }: StagedParts): Resource[] {
  return [bundles, ...(runtime === null ? [] : [runtime])];
}
