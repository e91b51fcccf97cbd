import * as z from 'zod';
import type { LocalResource } from '../hadoop/yarn/local-resource.ts';
import type { DeepReadonly } from '../platform/deep-readonly.ts';
import type { YarnCluster } from './job.ts';

/*
 * Types for the data that `tony-ts doctor --probe` exchanges. The client writes a ProbeOrder to job.json. The ApplicationMaster starts one
 * container per node, and writes a ProbeResult to the same folder. Each container sends two requests to the ApplicationMaster, as services
 * of tony.proto. First, it reports facts about its node, and receives the other containers' addresses once all nodes have reported. Then,
 * it reports which of them it can reach. Its port stays open until the ApplicationMaster has all reports and answers the second request.
 */

/** File names in the bundle folder and in a probe's staging folder. */
export const PROBE_LAYOUT = { script: 'probe.sh', result: 'probe.json' } as const;
/** Service that receives ProbeFacts and answers with ProbePeers. */
export const PROBE_FACTS = 'probe.facts';
/** Service that receives ProbeReached. */
export const PROBE_REACHED = 'probe.reached';

export interface ProbeOrder {
  readonly version: 1;
  readonly jobId: string;
  readonly user: string;
  /** URI of the folder that contains job.json. */
  readonly staging: string;
  /** Submission time, in ms since the epoch. */
  readonly submittedAt: number;
  /** Hashes of the cache entries among `resources`, which `tony-ts cache prune` keeps. */
  readonly cacheEntries: readonly string[];
  readonly cluster: YarnCluster;
  /** Files that the containers need. */
  readonly resources: readonly LocalResource[];
  readonly nodes: readonly NodeToProbe[];
  /** Time limit in ms for YARN to allocate all containers and for the containers to report. */
  readonly timeoutMs: number;
}

export interface NodeToProbe {
  /** Address of the NodeManager (`host:port`). */
  readonly node: string;
  readonly host: string;
  readonly rack: string;
  /** The node's label, or null if it has none. */
  readonly label: string | null;
}

/** Shortens a text, because a report with a long text is better than none. */
const text = (most: number) => z.string().transform((given) => given.slice(0, most));
const port = z.int().min(1).max(65_535);
const unreached = z.object({
  /** Address of the NodeManager that the container could not reach. */
  node: text(300),
  reason: text(500),
});
const MOST_UNREACHED = 1_000;

export const probeFacts = z.object({
  /** Output of probe.sh. */
  facts: text(16_384),
  /** Port on which the container listens. */
  port,
  /** Reason why the container cannot read a file on HDFS. Empty if the container can read the file. */
  storage: text(2_000),
});

export const probeReached = z.object({
  tried: z.int().min(0),
  unreached: z.array(unreached).max(MOST_UNREACHED),
});

/** Answer to ProbeFacts: the containers to which this container connects. */
export const probeAnswer = z.object({ answer: z.array(z.object({ node: text(300), host: text(300), port })).max(MOST_UNREACHED) });

export type ProbeFacts = DeepReadonly<z.output<typeof probeFacts>>;
export type ProbeReached = DeepReadonly<z.output<typeof probeReached>>;
export type ProbePeers = DeepReadonly<z.output<typeof probeAnswer>>['answer'];
export type Unreached = DeepReadonly<z.output<typeof unreached>>;

const probedNode = z.object({
  node: z.string(),
  /** Reason why no facts about the node are known. Empty if facts are known. */
  notProbed: z.string(),
  /** Facts keyed by name (see probe.sh). A name can have several values. */
  facts: z.record(z.string(), z.array(z.string())),
  /** Reason why a container on this node cannot read a file on HDFS. Empty if it can read the file, and null if this is unknown. */
  storage: z.string().nullable(),
  /** Number of nodes to which the container tried to connect, or 0 if the connections were not tested. */
  tried: z.number(),
  unreached: z.array(unreached),
});

export const probeResult = z.object({
  version: z.literal(1),
  /** Host of the ApplicationMaster. */
  master: z.string(),
  nodes: z.array(probedNode),
});

export type ProbedNode = DeepReadonly<z.output<typeof probedNode>>;
export type ProbeResult = DeepReadonly<z.output<typeof probeResult>>;

const FACT = /^tony-probe ([a-zA-Z]{1,32})=(.{0,500})$/gm;
const MOST_FACTS = 64;

/** Reads the facts in the output of probe.sh. YARN's diagnostics may contain only part of this output. */
export function parseFacts(text: string): Record<string, string[]> {
  const facts: Record<string, string[]> = {};
  for (const [, name = '', value = ''] of [...text.matchAll(FACT)].slice(0, MOST_FACTS)) {
    facts[name] = [...(facts[name] ?? []), value.trim()];
  }
  return facts;
}
