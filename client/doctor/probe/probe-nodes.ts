import { CONTAINER_LAYOUT } from '../../../conf/job.ts';
import { type NodeToProbe, PROBE_LAYOUT, type ProbeOrder, type ProbeResult, probeResult } from '../../../conf/node-probe.ts';
import { counted } from '../../../conf/values/quantities.ts';
import { daemonUri } from '../../../hadoop/configuration/file-systems/hdfs-place.ts';
import { gatewayTokens } from '../../../hadoop/configuration/login/gateway-login.ts';
import type { ApplicationSubmission } from '../../../hadoop/yarn/application-submission.ts';
import { launchCommand } from '../../../hadoop/yarn/launch-script.ts';
import type { LocalResource } from '../../../hadoop/yarn/local-resource.ts';
import { ResourceManager } from '../../../hadoop/yarn/resource-manager.ts';
import type { Node } from '../../../hadoop/yarn/resource-manager-answers.ts';
import { pause } from '../../../platform/async/backoff.ts';
import { TonyError } from '../../../platform/errors.ts';
import { firstNames } from '../../../platform/text/first-names.ts';
import { fileSystemsOfJob } from '../../../storage/job-file-systems.ts';
import { joinUri } from '../../../storage/uri.ts';
import type { HadoopCluster } from '../../cluster/cluster.ts';
import { MASTER_NODE_FLAGS } from '../../job/bundles.ts';
import { createJobSecrets } from '../../job/job-secrets.ts';
import { findArchive, findFolder, openStaging, removedFromCache, type StagingPlace, stageJob } from '../../staging/staging.ts';
import { hashedBundles } from '../../submit/submit-parts.ts';

/** YARN application type for probes. It differs from the application type for jobs, so that job lists omit probes. */
const APPLICATION_TYPE = 'TONY-PROBE';
const MASTER_MB = 512;
const MASTER_ATTEMPTS = 2;
const POLL_MS = 500;
/**
 * Time (ms) that a probe may take in addition to `timeoutMs`. The ApplicationMaster needs this time to start, to test the connections
 * between nodes, and to exit.
 */
const OVERHEAD_MS = 180_000;
const MOST_NAMED = 20;

export interface ProbeOptions {
  readonly queue: string;
  /** Hosts or NodeManagers (`host:port`) to probe. An empty list allows all nodes. */
  readonly only: readonly string[];
  /** Number of nodes to probe, or null for all nodes. */
  readonly sample: number | null;
  /** Time limit (ms) for YARN to allocate the containers, and for the containers to report. */
  readonly timeoutMs: number;
  readonly onProgress: (line: string) => void;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Chooses the nodes to probe.
 * @throws TonyError USAGE if `only` contains a name that is not an active node
 */
export function chooseNodes(all: readonly Node[], { only, sample }: Pick<ProbeOptions, 'only' | 'sample'>): readonly Node[] {
  const active = all.filter(({ state }) => state === 'RUNNING').toSorted((a, b) => (a.id < b.id ? -1 : 1));
  const unknown = only.find((name) => !active.some(({ id, host }) => id === name || host === name));
  if (unknown !== undefined) {
    const known = active.map(({ id }) => id);
    throw new TonyError('USAGE', `${unknown} is not an active cluster node. Active nodes: ${firstNames(known, MOST_NAMED)}.`);
  }
  const named = only.length === 0 ? active : active.filter(({ id, host }) => only.includes(id) || only.includes(host));
  const count = Math.min(sample ?? named.length, named.length);
  // Nodes with similar names often have the same hardware, so choose evenly spaced names.
  return Array.from({ length: count }, (_, at) => named[Math.floor((at * named.length) / count)]).filter((node) => node !== undefined);
}

/**
 * Runs a container on each node, and returns the containers' reports. Removes the probe's files afterwards. If the caller aborts the probe,
 * kills its YARN application.
 */
export async function probeNodes(cluster: HadoopCluster, nodes: readonly Node[], options: ProbeOptions): Promise<ProbeResult> {
  const resourceManager = ResourceManager.of(cluster.configuration, cluster.user);
  const { applicationId } = await resourceManager.newApplication();
  const staging = joinUri(cluster.root, 'jobs', applicationId);
  let isRunning = false;
  try {
    const submission = await stagedSubmission(cluster, applicationId, staging, nodes, options);
    options.signal?.throwIfAborted();
    await resourceManager.submit(submission);
    isRunning = true;
    options.onProgress(`probing ${counted(nodes.length, 'node')} with ${applicationId}`);
    await untilEnded(resourceManager, applicationId, options);
    isRunning = false;
    const result = await cluster.storage.read(joinUri(staging, PROBE_LAYOUT.result));
    return probeResult.parse(JSON.parse(result.toString('utf8')));
  } finally {
    if (isRunning) {
      await resourceManager.kill(applicationId).catch(() => {});
    }
    await cluster.storage.remove(staging).catch(() => {});
    resourceManager.close();
  }
}

async function stagedSubmission(
  cluster: HadoopCluster,
  applicationId: string,
  staging: string,
  nodes: readonly Node[],
  { queue, timeoutMs, onProgress, signal }: ProbeOptions,
): Promise<ApplicationSubmission> {
  const { configuration, login, storage, root, user } = cluster;
  const { ensureRuntime } = await import('../../runtime/ensure-runtime.ts');
  const place: StagingPlace = { storage, root, onEvent: () => {}, signal };
  const runtime = await ensureRuntime(onProgress);
  await openStaging(place, user);
  const parts = await Promise.all([
    findFolder(place, CONTAINER_LAYOUT.bundles, await hashedBundles()),
    findArchive(place, CONTAINER_LAYOUT.runtime, { file: runtime.archive, hash: runtime.sha256, size: runtime.size }),
  ]);
  try {
    const staged = await Promise.all(parts.map((part) => part.stage()));
    const resources = staged.map((resource) => ({ ...resource, uri: daemonUri(configuration, resource.uri) }));
    const order: ProbeOrder = {
      version: 1,
      applicationId,
      user,
      staging,
      cluster: { kind: 'yarn', hadoop: configuration.freeze() },
      resources,
      nodes: nodes.map(toProbe),
      timeoutMs,
    };
    const text = JSON.stringify(order);
    const file = await stageJob(place, staging, text);
    // Check that a concurrent prune has not removed files from the cache in the meantime. See submit-parts.ts.
    const isThere = await Promise.all(parts.map((part, at) => part.isStaged(staged[at] as LocalResource)));
    if (isThere.includes(false)) {
      throw removedFromCache(parts.filter((_, at) => !isThere[at]).map(({ name }) => name));
    }
    const tokens = [...(await login.jobTokens(fileSystemsOfJob(order, configuration))), ...(await gatewayTokens(configuration))];
    return {
      applicationId,
      name: 'tony-ts doctor --probe',
      type: APPLICATION_TYPE,
      queue,
      tags: [],
      memoryMb: MASTER_MB,
      vcores: 1,
      nodeLabel: null,
      priority: 0,
      maxAttempts: MASTER_ATTEMPTS,
      failureWindowMs: null,
      keepContainers: false,
      command: launchCommand(
        [`${CONTAINER_LAYOUT.runtime}/bin/node`, ...MASTER_NODE_FLAGS, `${CONTAINER_LAYOUT.bundles}/${PROBE_LAYOUT.master}`],
        { stdout: 'tony.log', stderr: 'stderr' },
      ),
      environment: {},
      resources: [...resources, { ...file, uri: daemonUri(configuration, file.uri) }],
      tokens,
      keepTokens: login.keepsTokens,
      secrets: new Map([...createJobSecrets(Date.now(), text)].map(([name, secret]) => [name, secret.reveal()])),
      acls: null,
    };
  } finally {
    await Promise.all(parts.map((part) => part.discard()));
  }
}

function toProbe({ id, host, rack, labels }: Node): NodeToProbe {
  return { node: id, host, rack, label: labels[0] ?? null };
}

async function untilEnded(resourceManager: ResourceManager, applicationId: string, { timeoutMs, signal }: ProbeOptions): Promise<void> {
  const end = performance.now() + timeoutMs + OVERHEAD_MS;
  for (;;) {
    signal?.throwIfAborted();
    const { state, finalStatus, diagnostics } = await resourceManager.application(applicationId);
    if (state === 'FINISHED' && finalStatus === 'SUCCEEDED') {
      return;
    }
    if (state === 'FINISHED' || state === 'FAILED' || state === 'KILLED') {
      throw new TonyError('PROBE_FAILED', `The probe's ApplicationMaster failed: ${diagnostics.trim().slice(0, 1_500)}`);
    }
    if (performance.now() > end) {
      throw new TonyError(
        'PROBE_FAILED',
        `The probe did not end in time. YARN reports the state ${state}: ${diagnostics.trim().slice(0, 500)}`,
      );
    }
    await pause(POLL_MS, signal);
  }
}
