import type { Resource, YarnCluster } from './job.ts';

/*
 * The data of `tony-ts doctor --probe`. The client writes a ProbeOrder as job.json. Its ApplicationMaster starts one container per node, and
 * writes a ProbeResult beside job.json.
 */

/** Files in the bundles, and in the staging folder of a probe. */
export const PROBE_LAYOUT = { master: 'probe-master.mjs', script: 'probe.sh', node: 'probe-node.mjs', result: 'probe.json' } as const;

/** Maximum length of a message, which is one line of JSON. */
export const LONGEST_MESSAGE = 256 * 1024;

export interface ProbeOrder {
  readonly version: 1;
  readonly applicationId: string;
  readonly user: string;
  /** URI of the folder with job.json. */
  readonly staging: string;
  readonly cluster: YarnCluster;
  /** Files for the containers. */
  readonly resources: readonly Resource[];
  readonly nodes: readonly NodeToProbe[];
  /** How long YARN may take, in ms, to allocate the containers, and how long the containers may take to report. */
  readonly timeoutMs: number;
}

export interface NodeToProbe {
  /** Address of the NodeManager (`host:port`). */
  readonly node: string;
  readonly host: string;
  readonly rack: string;
  /** null for a node without a label. */
  readonly label: string | null;
}

/** First message of a container. */
export interface ProbeFacts {
  readonly type: 'facts';
  readonly containerId: string;
  /** Output of probe.sh. */
  readonly facts: string;
  /** Port on which the container listens. */
  readonly port: number;
  /** Why the container cannot read a file on HDFS; empty if it can. */
  readonly storage: string;
}

/** Response to the facts: the containers to which this container connects. */
export interface ProbePeers {
  readonly type: 'peers';
  readonly peers: readonly { readonly node: string; readonly host: string; readonly port: number }[];
}

/** Last message of a container. */
export interface ProbeReached {
  readonly type: 'reached';
  readonly tried: number;
  readonly unreached: readonly Unreached[];
}

export interface Unreached {
  /** Address of the other NodeManager. */
  readonly node: string;
  readonly reason: string;
}

export interface ProbedNode {
  readonly node: string;
  /** Why the node has no facts, or empty if it has some. */
  readonly notProbed: string;
  /** By name; see probe.sh. A name can have several values. */
  readonly facts: Readonly<Record<string, readonly string[]>>;
  /** Why a container on this node cannot read a file on HDFS. Empty if it can, and null if this is unknown. */
  readonly storage: string | null;
  /** Number of nodes to which the container connected; 0 if this was not tested. */
  readonly tried: number;
  readonly unreached: readonly Unreached[];
}

export interface ProbeResult {
  readonly version: 1;
  /** Host of the ApplicationMaster. */
  readonly master: string;
  readonly nodes: readonly ProbedNode[];
}

const FACT = /^tony-probe ([a-zA-Z]{1,32})=(.{0,500})$/gm;
const MOST_FACTS = 64;

/** Reads the facts in the output of probe.sh, which may be a part of YARN's diagnostics. */
export function parseFacts(text: string): Record<string, string[]> {
  const facts: Record<string, string[]> = {};
  for (const [, name = '', value = ''] of [...text.matchAll(FACT)].slice(0, MOST_FACTS)) {
    facts[name] = [...(facts[name] ?? []), value.trim()];
  }
  return facts;
}
