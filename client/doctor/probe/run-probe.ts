import { CONTAINER_LAYOUT, PROBE_FLAG } from '../../../conf/job.ts';
import { type NodeToProbe, PROBE_LAYOUT, type ProbeOrder, type ProbeResult, probeResult } from '../../../conf/node-probe.ts';
import { counted } from '../../../conf/values/quantities.ts';
import { gatewayTokens } from '../../../hadoop/configuration/login/gateway-login.ts';
import type { ApplicationSubmission } from '../../../hadoop/yarn/application-submission.ts';
import { ResourceManager } from '../../../hadoop/yarn/resource-manager.ts';
import type { Node } from '../../../hadoop/yarn/resource-manager-answers.ts';
import { pause } from '../../../platform/async/backoff.ts';
import { messageOf, TonyError } from '../../../platform/errors.ts';
import { firstNames } from '../../../platform/text/first-names.ts';
import { joinUri } from '../../../storage/uri.ts';
import type { ClusterOptions, HadoopCluster } from '../../cluster/cluster.ts';
import { type RecordedNode, recordNodes } from '../../cluster/node-record.ts';
import { withCluster } from '../../cluster/with-cluster.ts';
import { fileSystemsIn } from '../../job/job-file-systems.ts';
import { cacheEntriesIn } from '../../job/job-texts.ts';
import { findArchive, findFolder, openStaging, refuseLocalStaging, type StagingPlace, stageJob } from '../../staging/staging.ts';
import { daemonResource, masterProgram, sharedParts } from '../../submit/application.ts';
import { discardParts, type FoundParts, hashedBundles, refuseRemoved, stageParts } from '../../submit/parts.ts';
import type { Finding } from '../diagnosis.ts';
import { type NodeFacts, nodeFacts } from './node-facts.ts';
import { probeFindings } from './probe-findings.ts';

/** YARN application type for probes. It differs from the application type for jobs, so that job lists omit probes. */
const APPLICATION_TYPE = 'TONY-PROBE';
const MASTER_MB = 512;
const POLL_MS = 500;
/**
 * Time (ms) that a probe may take in addition to `timeoutMs`. The ApplicationMaster needs this time to start, to test the connections
 * between nodes, and to exit.
 */
const OVERHEAD_MS = 180_000;
const MOST_NAMED = 20;

interface ProbeOptions {
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

export interface ProbeReport {
  readonly nodes: readonly NodeFacts[];
  readonly findings: readonly Finding[];
}

/**
 * Runs a container on each node, and reports the problems that jobs would have on the nodes.
 * @throws TonyError USAGE, PROBE_FAILED
 */
export async function runProbe(options: ClusterOptions & ProbeOptions): Promise<ProbeReport> {
  const { sample } = options;
  if (sample !== null && !(Number.isInteger(sample) && sample > 0)) {
    throw new TonyError('USAGE', '--nodes requires a positive integer.');
  }
  return withCluster(options, async (cluster, resourceManager) => {
    const chosen = chooseNodes(await resourceManager.nodes(), options);
    const { nodes } = await probeNodes(cluster, chosen, options);
    const facts = nodes.map(nodeFacts);
    await recordNodes(cluster.storage, cluster.root, recordable(facts, chosen)).catch((error: unknown) =>
      options.onProgress(`could not record the nodes for later submissions: ${messageOf(error)}`),
    );
    const yarnGpus = new Map(chosen.map(({ id, total }) => [id, total['yarn.io/gpu'] ?? 0]));
    return { nodes: facts, findings: probeFindings(facts, { user: cluster.user, yarnGpus }) };
  });
}

/** Returns the facts from which later submissions determine whether the nodes can load their Python packages. */
function recordable(facts: readonly NodeFacts[], chosen: readonly Node[]): RecordedNode[] {
  const probedAt = Date.now();
  return facts
    .filter(({ notProbed, glibc }) => notProbed === '' && glibc !== '')
    .map(({ node, machine, glibc, pythons }) => ({
      node,
      label: chosen.find(({ id }) => id === node)?.labels[0] ?? null,
      probedAt,
      machine,
      glibc,
      pythons: [...new Set(pythons.flatMap((python) => / (3\.\d+)/.exec(python)?.[1] ?? []))],
    }));
}

/**
 * Chooses the nodes to probe.
 * @throws TonyError USAGE if `only` contains a name that is not an active node
 */
function chooseNodes(all: readonly Node[], { only, sample }: Pick<ProbeOptions, 'only' | 'sample'>): readonly Node[] {
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
async function probeNodes(cluster: HadoopCluster, nodes: readonly Node[], options: ProbeOptions): Promise<ProbeResult> {
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
  refuseLocalStaging(place.root);
  await openStaging(place, user);
  const [bundles, archive] = await Promise.all([
    findFolder(place, CONTAINER_LAYOUT.bundles, await hashedBundles()),
    findArchive(place, CONTAINER_LAYOUT.runtime, { file: runtime.archive, hash: runtime.sha256, size: runtime.size }),
  ]);
  const parts: FoundParts = { source: null, bundles, runtime: archive, tensorboard: null, pythonEnvironment: null, data: {}, files: {} };
  try {
    const staged = await stageParts(parts, signal);
    const resources = sharedParts(staged).map(daemonResource(configuration));
    const uris = resources.map(({ uri }) => uri);
    const order: ProbeOrder = {
      version: 1,
      jobId: applicationId,
      user,
      staging,
      submittedAt: Date.now(),
      cacheEntries: cacheEntriesIn(uris),
      cluster: { kind: 'yarn', hadoop: configuration.freeze() },
      resources,
      nodes: nodes.map(toProbe),
      timeoutMs,
    };
    const text = JSON.stringify(order);
    const own = [await stageJob(place, staging, text)];
    await refuseRemoved(parts, staged);
    const fileSystems = fileSystemsIn([staging, ...uris], configuration);
    const tokens = [...(await login.jobTokens(fileSystems)), ...(await gatewayTokens(configuration))];
    const secrets = { tokens, keepTokens: login.keepsTokens, s3: null, configuration };
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
      failureWindowMs: null,
      keepContainers: false,
      environment: {},
      acls: null,
      ...masterProgram(text, own, staged, secrets, [PROBE_FLAG]),
    };
  } finally {
    await discardParts(parts);
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
