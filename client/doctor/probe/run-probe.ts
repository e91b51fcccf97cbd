import type { Node } from '../../../hadoop/yarn/resource-manager-answers.ts';
import { messageOf, TonyError } from '../../../platform/errors.ts';
import type { ClusterOptions } from '../../cluster/cluster.ts';
import { type RecordedNode, recordNodes } from '../../cluster/node-record.ts';
import { withCluster } from '../../cluster/with-cluster.ts';
import type { Finding } from '../diagnosis.ts';
import { type NodeFacts, nodeFacts } from './node-facts.ts';
import { probeFindings } from './probe-findings.ts';
import { chooseNodes, type ProbeOptions, probeNodes } from './probe-nodes.ts';

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
