import { stat } from 'node:fs/promises';
import { TonyError } from '../conf/errors.ts';
import { APPLICATION_TYPE, CONTAINER_LAYOUT, type Job, type Resource } from '../conf/job.ts';
import { roleTags } from '../conf/role-tags.ts';
import { formatMemory } from '../conf/units.ts';
import { launchCommand } from '../hadoop/launch-script.ts';
import { ResourceManager } from '../hadoop/resource-manager.ts';
import { bundlesFolder, MASTER_NODE_FLAGS } from './bundles.ts';
import { ownerOf, refuseBeyondQuotas } from './check-quotas.ts';
import type { Cluster } from './cluster.ts';
import { freezeJob } from './freeze-job.ts';
import { historyPlace, openHistory } from './history/history-place.ts';
import { createJobSecrets } from './job-secrets.ts';
import { hasScheme, placeUri } from './place-uri.ts';
import { type HashedFolder, hashFolder } from './source-archive.ts';
import { listData, listFolder, listSource } from './source-folder.ts';
import { openStaging, type StagingEvent, type StagingPlace, stageArchive, stageData, stageFolder, stageJob } from './staging.ts';
import { bringsTensorBoard, withTensorBoard } from './tensorboard-role.ts';
import { untilAborted } from './until-aborted.ts';

/** One more than one: a lost node takes no job with it, a defect does not go round for ever. */
const MASTER_ATTEMPTS = 2;

export interface YarnSubmitOptions {
  readonly onEvent: (event: StagingEvent) => void;
  /** A line of progress, when a runtime has to be built first. */
  readonly onProgress: (line: string) => void;
  /** Ends the submit; nothing of the job is left on HDFS then. */
  readonly signal?: AbortSignal | undefined;
}

export interface YarnSubmission {
  readonly applicationId: string;
  readonly trackingUrl: string;
}

/** Stages what the job needs, each thing once for all jobs that have the same, and asks for its ApplicationMaster. */
export async function submitToYarn(job: Job, cluster: Cluster, options: YarnSubmitOptions): Promise<YarnSubmission> {
  const resourceManager = ResourceManager.of(cluster.configuration, cluster.user);
  try {
    return await stageAndSubmit(job, cluster, resourceManager, options);
  } finally {
    resourceManager.close();
  }
}

async function stageAndSubmit(
  job: Job,
  cluster: Cluster,
  resourceManager: ResourceManager,
  options: YarnSubmitOptions,
): Promise<YarnSubmission> {
  const { configuration, user, storage, root, home } = cluster;
  const place: StagingPlace = { storage, root, onEvent: options.onEvent, signal: options.signal };
  // An id that is not used costs nothing; staging begins when all of this machine's part is known to be there.
  const [parts, { applicationId, maximum }, site] = await untilAborted(
    Promise.all([localParts(job, options.onProgress), resourceManager.newApplication(), cluster.site()]),
    options.signal,
  );
  refuseBeyondQuotas(withTensorBoard(job), await ownerOf(job, cluster, site), site);
  refuseTooLarge(job.master, maximum);
  await openStaging(place, user);
  const [source, bundles, runtime, tensorboard, data] = await Promise.all([
    parts.source && stageFolder(place, CONTAINER_LAYOUT.source, parts.source),
    stageFolder(place, CONTAINER_LAYOUT.bundles, parts.bundles),
    stageRuntime(place, job, parts.runtime, home),
    parts.tensorboard && stageArchive(place, CONTAINER_LAYOUT.tensorboard, parts.tensorboard),
    stageAllData(place, parts.data),
  ]);
  const shared = [bundles, ...(runtime === null ? [] : [runtime])];
  const submittedAt = Date.now();
  const history = historyPlace(site, cluster);
  const frozen = freezeJob(job, {
    applicationId,
    user,
    submittedAt,
    root,
    home,
    history,
    data,
    resources: [...(source === null ? [] : [source]), ...shared],
    tensorboard,
    cluster: { kind: 'yarn', hadoop: configuration.freeze() },
  });
  try {
    options.signal?.throwIfAborted();
    await openHistory(storage, history, user, applicationId);
    const jobFile = await stageJob(place, applicationId, JSON.stringify(frozen));
    const node = runtime === null ? 'node' : `${CONTAINER_LAYOUT.runtime}/bin/node`;
    options.signal?.throwIfAborted();
    await resourceManager.submit({
      applicationId,
      name: job.name,
      type: APPLICATION_TYPE,
      queue: job.queue,
      tags: ['tony-ts', ...roleTags(frozen.job), ...job.tags],
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
      resources: [jobFile.resource, ...shared],
      secrets: new Map([...createJobSecrets(submittedAt)].map(([name, secret]) => [name, secret.reveal()])),
      acls: job.acls,
    });
  } catch (error) {
    // What failed is the reason that counts.
    await Promise.allSettled([storage.remove(frozen.staging), storage.remove(frozen.history)]);
    throw error;
  }
  return { applicationId, trackingUrl: `${configuration.resourceManagers[0]}/proxy/${applicationId}/` };
}

/** What YARN would not even take on; what the roles ask for is the ApplicationMaster's to judge, and to report where everybody looks. */
function refuseTooLarge(master: Job['master'], maximum: Readonly<Record<string, number>>): void {
  const memory = maximum['memory-mb'] ?? Number.POSITIVE_INFINITY;
  if (master.memoryMb > memory) {
    throw new TonyError(
      'MASTER_TOO_LARGE',
      `The ApplicationMaster asks for ${formatMemory(master.memoryMb)}; the largest container of this cluster has ${formatMemory(memory)}.`,
      { hint: 'Lower master.memory in job.yaml.' },
    );
  }
  const vcores = maximum.vcores ?? Number.POSITIVE_INFINITY;
  if (master.vcores > vcores) {
    throw new TonyError(
      'MASTER_TOO_LARGE',
      `The ApplicationMaster asks for ${master.vcores} vcores; the largest container of this cluster has ${vcores}.`,
      { hint: 'Lower master.vcores in job.yaml.' },
    );
  }
}

interface DataPart {
  readonly name: string;
  /** Where it is already, or what has to be put there. */
  readonly from: string | { readonly folder: HashedFolder; readonly single: boolean };
}

interface BuiltArchive {
  readonly file: string;
  readonly hash: string;
  readonly size: number;
}

interface LocalParts {
  readonly source: HashedFolder | null;
  readonly bundles: HashedFolder;
  readonly runtime: BuiltArchive | null;
  readonly tensorboard: BuiltArchive | null;
  readonly data: readonly DataPart[];
}

/** Everything of this machine is looked at before anything is put on the cluster: a missing folder leaves no trace there. */
async function localParts(job: Job, onProgress: (line: string) => void): Promise<LocalParts> {
  const [source, bundles, data] = await Promise.all([
    job.source && listSource(job.source.path, job.source.exclude).then(hashFolder),
    bundlesFolder()
      .then((folder) => listFolder(folder, 'folder of built programs'))
      .then(hashFolder),
    Promise.all(Object.entries(job.data).map(([name, from]) => dataPart(name, from))),
  ]);
  // One after the other: their lines of progress are for people to read.
  return { source, bundles, data, runtime: await builtRuntime(job, onProgress), tensorboard: await builtTensorBoard(job, onProgress) };
}

async function builtRuntime(job: Job, onProgress: (line: string) => void): Promise<BuiltArchive | null> {
  if (job.runtime !== 'default' && job.runtime !== 'gpu') return null;
  const { ensureRuntime } = await import('./runtime/ensure-runtime.ts');
  const { archive, sha256, size } = await ensureRuntime(onProgress, { gpu: job.runtime === 'gpu' });
  return { file: archive, hash: sha256, size };
}

async function builtTensorBoard(job: Job, onProgress: (line: string) => void): Promise<BuiltArchive | null> {
  if (!bringsTensorBoard(job)) return null;
  const { tensorBoardForJob } = await import('./runtime/tensorboard-for-job.ts');
  const built = await tensorBoardForJob(onProgress);
  return built && { file: built.archive, hash: built.sha256, size: built.size };
}

async function dataPart(name: string, from: string): Promise<DataPart> {
  if (hasScheme(from)) return { name, from };
  const folder = await hashFolder(await listData(from, name));
  return { name, from: { folder, single: (await stat(from)).isFile() } };
}

async function stageRuntime(place: StagingPlace, job: Job, built: LocalParts['runtime'], home: string): Promise<Resource | null> {
  if (built !== null) return stageArchive(place, CONTAINER_LAYOUT.runtime, built);
  if (job.runtime === 'system') return null;
  const uri = placeUri(job.runtime, home) ?? job.runtime;
  const entry = await place.storage.stat(uri);
  if (entry?.type !== 'file') {
    throw new TonyError('RUNTIME_MISSING', `The runtime ${uri} is ${entry === null ? 'not there' : 'a folder'}.`);
  }
  return { name: CONTAINER_LAYOUT.runtime, uri, type: 'archive', visibility: 'private', size: entry.size, timestamp: entry.modifiedAt };
}

async function stageAllData(place: StagingPlace, parts: readonly DataPart[]): Promise<Record<string, string>> {
  const uris = await Promise.all(
    parts.map(
      async ({ name, from }) => [name, typeof from === 'string' ? from : await stageData(place, name, from.folder, from.single)] as const,
    ),
  );
  return Object.fromEntries(uris);
}
